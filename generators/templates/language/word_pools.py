"""Word lists: what entity placeholders and data types draw from.

Written for this project. Entity words are lower case ASCII letters, so that any of them may stand
in a file name, in SQL or in a path expression. A list is never changed, only added to under a new
name: the bytes of every instance depend on its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


_COLORS = _words("""
    amber apricot aqua aubergine beige burgundy cerise cerulean charcoal chartreuse cobalt coral
    cream cyan ecru fawn fuchsia ginger hazel heather indigo ivory khaki lavender lilac lime
    magenta mahogany maroon mauve ochre olive peach periwinkle pewter plum puce rust saffron
    salmon scarlet sepia sienna tan taupe teal terracotta turquoise umber vermilion
""")

_NATURE = _words("""
    acorn alder aspen badger birch bluebell bog bracken bramble brook cedar clover cove crag
    creek cypress dell dune estuary fern fjord foxglove geyser glacier glen gorse grove heath
    heron hollow juniper kelp kestrel lagoon larch lichen marsh meadow moor moss otter oxbow
    pebble pine poppy prairie quarry reed ridge rowan sandbar savanna sedge shoal sparrow spruce
    steppe tarn thicket thistle tundra willow wren yarrow
""")

_METALS = _words("""
    aluminium antimony barium beryllium bismuth brass bronze cadmium calcium cerium cesium
    chromium copper erbium gallium germanium gold hafnium holmium indium iridium iron lanthanum
    lead lithium lutetium magnesium manganese mercury molybdenum nickel niobium osmium palladium
    platinum rhenium rhodium rubidium ruthenium scandium silver sodium steel strontium tantalum
    terbium thallium thorium thulium tin titanium tungsten vanadium ytterbium yttrium zinc
    zirconium
""")

_GEMS = _words("""
    agate alexandrite almandine amazonite amethyst ametrine andalusite apatite aquamarine
    aventurine azurite beryl bloodstone carnelian celestine chalcedony chrysoprase citrine
    danburite diamond diopside emerald fluorite garnet heliodor hematite howlite iolite jade
    jasper jet kunzite kyanite labradorite larimar lazurite malachite moonstone morganite
    obsidian onyx opal pearl peridot pyrite quartz rhodonite ruby sapphire sardonyx selenite
    sodalite spinel sugilite sunstone tanzanite topaz tourmaline variscite zircon
""")

# Colours, landscape, things, abstract and descriptive words, mixed on purpose: the names that an
# agent meets in the wild are seldom tidy (section 4.3.2 of the paper).
_DEFAULT = _words("""
    amber ochre teal indigo maroon lilac cobalt russet ivory scarlet olive plum
    saffron turquoise slate copper pewter sable umber coral
    fjord lagoon marsh tundra glacier ravine plateau estuary prairie delta canyon grotto
    orchard thicket moor cove summit isthmus dune meadow waterfall archipelago hillside riverbank
    volcano savanna
    thunder monsoon drizzle blizzard sunrise twilight eclipse comet aurora zephyr frost
    lantern anchor compass kettle ladder bridge candle mirror hammer basket violin saddle pocket
    barrel ribbon window pencil blanket trumpet needle wagon chimney carpet bottle
    balance courage doubt echo fortune freedom glory habit honour idea justice kindness memory
    mystery notion omen paradox patience promise puzzle reason rumour silence tempo theory trust
    venture wisdom wonder rhythm symmetry
    agile blunt bold brisk calm clever coarse crooked dense eager faint fierce frail gentle
    hasty hollow humble idle jagged keen lively loyal mellow narrow nimble noble odd
    pale patient polite proud quaint quiet rapid rigid rough rustic shallow sharp silent
    sleek slender solemn steady steep stubborn subtle supple swift tender tidy vast vivid
    weary wild witty young zesty
    badger falcon otter raven tiger walrus beetle heron lynx pelican salmon sparrow
    cedar clover fern juniper maple thistle walnut willow
""")

_PERSON = _words("""
    accountant acrobat apprentice archivist astronomer auditor baker barber beekeeper blacksmith
    bookbinder botanist butcher captain carpenter cartographer chemist clerk cobbler composer
    conductor dentist diver editor electrician farmer ferryman fisher florist gardener geologist
    glazier goldsmith historian illustrator innkeeper interpreter janitor jeweller judge
    librarian locksmith mason mechanic midwife miller musician navigator nurse optician painter
    pharmacist pilot plumber poet porter potter printer referee roofer sailor sculptor shepherd
    surgeon surveyor tailor teacher translator upholsterer vet violinist waiter watchmaker weaver
    welder zoologist
""")

_PLACE = _words("""
    abbey airport aquarium arboretum arena bakery barracks boathouse bookshop brewery cabin
    campus canteen castle cathedral cellar cinema clinic courthouse courtyard crossroads dockyard
    embassy factory farmhouse ferry forge fortress fountain gallery garage gatehouse granary
    greenhouse gymnasium harbour hostel hotel junction kiosk laboratory laundry library
    lighthouse marina market mill monastery museum nursery observatory office opera park pavilion
    pharmacy pier planetarium playground port promenade quay rectory refinery reservoir
    restaurant sawmill school stadium station studio terminal theatre tower tunnel university
    viaduct village vineyard warehouse wharf windmill workshop zoo
""")

_BUSINESS = _words("""
    account acquisition agenda agreement annuity appraisal asset audit balance bid board bond
    bonus brand broker budget bulletin buyer campaign capital catalogue charter claim client
    commission compliance consignment contract coupon customer dealer debt deposit discount
    dividend equity estimate excise expense export fee fiscal forecast franchise freight grant
    guarantee import incentive insurance inventory invoice ledger levy licence loan margin
    merger mortgage overhead partner patent payroll pension portfolio premium procurement profit
    proposal purchase quota rebate receipt refund rent retail revenue royalty shipment
    sponsor subsidy supplier surplus tariff tax tender tenant trade turnover vendor voucher wage
    wholesale
""")

_TECHNOLOGY = _words("""
    actuator adapter algorithm allocator antenna archive array assembler backup balancer bitmap
    bootloader browser buffer bus cache capacitor checksum chipset cipher codec
    compiler connector container controller daemon database debugger decoder dispatcher display
    domain driver emulator encoder endpoint ethernet exporter firewall firmware formatter gateway
    handler hash hypervisor index inverter kernel keyboard keyring laser linker listener loader
    logger macro mainframe microphone middleware mixer modem module monitor mutex namespace
    node optimizer oscillator packet parser partition payload pipeline pixel plugin pointer
    polling processor profiler protocol proxy queue radar receiver register relay renderer
    repeater resistor resolver robot router runtime sandbox scanner scheduler schema script
    semaphore sensor server session shader snapshot socket solver sonar stack subnet switch
    telemetry terminal thread token transceiver transistor tuner turbine webhook widget
""")

POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": _DEFAULT,
        "colors": _COLORS,
        "nature": _NATURE,
        "metals": _METALS,
        "gems": _GEMS,
        "person": _PERSON,
        "place": _PLACE,
        "business": _BUSINESS,
        "technology": _TECHNOLOGY,
    }
)

# Values of data types. None holds a comma, a quote, a colon or a brace, so that each may stand in
# CSV, in SQL and as an argument of a function without being quoted. The short lists (statuses,
# departments, regions, categories) hold the values that people's templates filter by.

FIRST_NAMES = _words("""
    Adaeze Agnes Ahmed Aiko Alasdair Alba Amara Amir Anneke Anton Astrid Beatriz Bjorn Bronwyn
    Callum Camille Chidi Chiara Clara Cosmin Dagny Dalia Darius Dmitri Edith Eamon Elif Elias
    Emeka Esme Farah Fatima Felix Fiona Florian Freya Gareth Giulia Greta Hamza Hana Hugo Ian
    Ines Ingrid Isla Ivan Jamal Jasper Joaquin Jonas Kaito Katja Kenji Kirsten Lars Leila Linnea
    Lorenzo Magnus Malik Marta Mateo Mei Mina Mirela Nadia Naveen Niamh Nils Noor Oksana Olga
    Omar Oscar Padma Pavel Petra Priya Quentin Rafael Ravi Rhys Rosa Rui Sabine Samira Sanjay
    Silas Simone Sofia Sven Tamar Tariq Tessa Theo Tomas Uma Ursula Viktor Wanda Xavier Yara
    Yusuf Zainab Zofia
""")

LAST_NAMES = _words("""
    Abara Adler Aguirre Ahlberg Akhtar Albrecht Almeida Amsel Andrade Arnott Asante Bakker Barros
    Bauer Becker Bellamy Berglund Bianchi Blackwood Boateng Brandt Byrne Caldwell Castellanos
    Chaudhry Chen Christensen Conti Corrigan Cvetkov Dahl Dasgupta Delgado Demir Dreyer Dubois
    Eguchi Ekstrom Eriksen Fairbank Farouk Ferrari Fontaine Forsythe Fujita Gallagher Georgiou
    Grimaldi Gupta Haddad Halvorsen Hargreaves Hashimoto Heikkinen Hoffmann Horvat Ibarra Iyer
    Jankowski Jensen Kapoor Kaur Keller Khoury Kimura Kovacs Kruger Lachance Larsson Leclerc
    Lindqvist Lombardi Lund Macleod Marchetti Mbeki Mehta Mensah Molina Moreau Murphy Nakamura
    Ndiaye Nieminen Novak Nyberg Obi Okafor Olsen Ortega Osei Ozturk Palmer Park Petrov Pinto
    Quirke Rahman Rasmussen Reyes Ricci Rossi Sandoval Santos Schreiber Sharma Silva Soares
    Sokolov Stewart Suzuki Takahashi Tanaka Teixeira Tremblay Ueda Urquhart Vargas Vasquez Vogel
    Voss Wallin Weber Whitfield Winter Yamada Yilmaz Zapata Zhang Ziegler
""")

MAIL_DOMAINS = _words("""
    example.com example.org example.net mail.example post.example inbox.example office.example
    letters.example
""")

CITIES = _lines("""
    Aberdeen
    Adelaide
    Antwerp
    Asheville
    Bergen
    Bilbao
    Boise
    Bologna
    Bordeaux
    Boulder
    Bristol
    Brno
    Burlington
    Calgary
    Cape Town
    Cardiff
    Chattanooga
    Cincinnati
    Cork
    Curitiba
    Des Moines
    Dresden
    Duluth
    Edinburgh
    El Paso
    Eugene
    Galway
    Gdansk
    Geneva
    Ghent
    Gothenburg
    Grand Rapids
    Graz
    Halifax
    Hamilton
    Hobart
    Honolulu
    Innsbruck
    Izmir
    Jaipur
    Kobe
    Krakow
    Lausanne
    Leeds
    Leipzig
    Lisbon
    Little Rock
    Ljubljana
    Lyon
    Malmo
    Mendoza
    Nagoya
    Nairobi
    Nantes
    Omaha
    Oslo
    Ottawa
    Perth
    Pittsburgh
    Porto
    Providence
    Quito
    Reno
    Reykjavik
    Riga
    Rochester
    Rotterdam
    Salt Lake City
    Salzburg
    Santa Fe
    Savannah
    Seville
    Spokane
    Tacoma
    Tallinn
    Tampa
    Toledo
    Trieste
    Turin
    Uppsala
    Utrecht
    Valencia
    Vilnius
    Winnipeg
""")

COMPANIES = _lines("""
    Alderbrook Freight
    Amberline Logistics
    Anchor Bay Foods
    Ashdown Textiles
    Bluecrest Insurance
    Bramley and Sons
    Brightwater Energy
    Calder Instruments
    Cedar Hill Dairies
    Cinderford Steel
    Clearview Optics
    Copperfield Tools
    Dovetail Furniture
    Eastgate Printing
    Ember Ceramics
    Fairhaven Shipping
    Fenwick Paper Mills
    Foxglove Cosmetics
    Glasswing Aviation
    Greystone Quarries
    Hartwell Pharma
    Hazelmere Press
    Highfield Motors
    Ironbridge Castings
    Jubilee Catering
    Kestrel Avionics
    Kingfisher Pumps
    Larkspur Gardens
    Lighthouse Media
    Longacre Seeds
    Marlowe Robotics
    Meridian Cables
    Millpond Brewing
    Moorland Wool
    Nettleton Glass
    Northlight Studios
    Oakhurst Timber
    Orchard Lane Juices
    Pemberton Clocks
    Pinewood Pharmacy
    Quayside Marine
    Ravenscar Mining
    Redwood Analytics
    Rosewater Perfumes
    Saltmarsh Fisheries
    Silverbirch Homes
    Stonebridge Bank
    Summerfield Bakery
    Swiftwater Couriers
    Tamarind Spices
    Thornbury Electric
    Tideway Turbines
    Upland Railways
    Violet Lane Fashion
    Wayfarer Travel
    Westmark Legal
    Whitecliff Chemicals
    Willowbank Software
    Wrenfield Plastics
    Yarrow Biotech
""")

PRODUCTS = _lines("""
    Adjustable Wrench
    Bamboo Cutting Board
    Bookshelf Speaker
    Brass Door Handle
    Camping Stove
    Canvas Backpack
    Cast Iron Skillet
    Ceramic Teapot
    Cordless Drill
    Cotton Bath Towel
    Desk Lamp
    Digital Thermometer
    Electric Kettle
    Ergonomic Chair
    Espresso Machine
    Extension Lead
    Feather Pillow
    Fishing Reel
    Folding Bicycle
    Fountain Pen
    Garden Hose
    Glass Carafe
    Graphite Pencil Set
    Hand Blender
    Hiking Boots
    Insulated Flask
    Kitchen Scale
    Label Printer
    Leather Wallet
    Linen Tablecloth
    Magnetic Whiteboard
    Mechanical Keyboard
    Microscope Slide Kit
    Noise Meter
    Oak Picture Frame
    Paper Shredder
    Patio Umbrella
    Pocket Radio
    Pressure Cooker
    Rain Jacket
    Reading Glasses
    Rechargeable Torch
    Rowing Machine
    Sewing Machine
    Shower Head
    Sleeping Bag
    Soldering Iron
    Spirit Level
    Stainless Saucepan
    Steel Toolbox
    Storage Basket
    Tennis Racket
    Travel Adapter
    Tripod Stand
    Usb Hub
    Vacuum Flask
    Wall Clock
    Water Filter
    Wireless Mouse
    Wool Blanket
""")

STATUSES = _words("""
    active approved archived cancelled completed inactive pending processing rejected shipped
""")

DEPARTMENTS = _words("""
    Design Engineering Finance HR Legal Logistics Marketing Operations Procurement Sales
""")

REGIONS = _words("""
    Central Coastal East Highlands Midwest North Northeast Northwest South Southeast Southwest West
""")

COURSES = _lines("""
    Acoustics 210
    Algebra 110
    Anthropology 120
    Astronomy 105
    Botany 130
    Cartography 215
    Ceramics 140
    Compilers 420
    Cryptography 415
    Ecology 230
    Ethics 101
    Fluid Dynamics 340
    Genetics 310
    Geology 125
    Graph Theory 350
    Harmony 220
    Hydrology 330
    Journalism 150
    Linguistics 205
    Logic 115
    Metallurgy 325
    Microeconomics 201
    Number Theory 360
    Optics 245
    Philosophy 102
    Robotics 430
    Sociology 160
    Thermodynamics 315
    Topology 440
    Zoology 135
""")

SEASONS = _words("Spring Summer Fall Winter")

CATEGORIES = _lines("""
    Automotive
    Books
    Clothing
    Electronics
    Furniture
    Gardening
    Groceries
    Home & Garden
    Music
    Office
    Sports
    Stationery
""")

# Latin words for filler text.
LATIN = _words("""
    lorem ipsum dolor sit amet abies acer ager agricola ala albus alter altus amicus amnis ancora
    animus annus antrum apis aqua ara arbor arcus ardea argentum arma ars arvum aster atque auris
    aurum avis bellum bonus bos brevis caelum campus candor canis cantus caper carmen carus caseus
    castra cera cervus cibus circum civis clarus clavis collis color coma corona cortex crystallum
    culmen cum currus custos decem dens dexter dies domus donum ebur ensis equus ergo fabula faber
    facies fagus fama felix fenestra ferrum fides filum finis flamma flos flumen fons forma fortis
    frater frigus frons fructus fuga fulgor fumus gaudium gelu gemma gens genus gladius gloria
    gradus grando granum grex hasta herba hiems hilaris hodie hora hortus hospes humus ignis imago
    imber insula inter iter iubar iudex iugum labor lacus laetus lapis latus laurus leo levis lex
    liber lignum lilium limen linea litus locus longus lucerna ludus lumen luna lupus lux magister
    magnus mare margo mater mel mensa mensis merces messis miles mirus mitis modus mollis mons mora
    mos mox multus mundus murus musca nauta navis nebula nemus nidus nimbus nix nomen novus nox
    nubes numerus nunc oculus olea omnis opus ora orbis ordo oriens ovis palus panis par passer
    pastor pater pax pecus pelagus penna per pes pinus pirum piscis placidus plenus pomum pons
    populus porta portus post pratum primus prope puer pulcher puteus quando quercus quies quoque
    radius ramus rana regio res rex ripa rivus robur rosa rota ruber rus saepe sagitta sal salix
    saltus saxum scutum semen semper senex septem sidus silva sol solum somnus sonus sors spes
    stella stilus sub sulcus tamen taurus tectum tellus templum tempus tener terra tiger tilia
    titulus tonitrus toga totus tres tumulus turba turris umbra unda unus urbs ursus urna usus uva
    vallis vastus velum ventus ver verbum vesper vetus via vicus vigil villa vinum vir virga viridis
    vis vita vitis vitrum volucris vox vulpes
""")
