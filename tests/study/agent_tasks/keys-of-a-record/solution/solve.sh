#!/bin/bash
python3 - <<'END'
import json

def keys(value):
    for name, inner in value.items():
        yield name
        if isinstance(inner, dict):
            yield from keys(inner)

open('keys.txt', 'w').write('\n'.join(sorted(keys(json.load(open('record.json'))['cargo']))) + '\n')
END
