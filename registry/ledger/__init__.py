"""The ledger: an append-only chain of records, with Merkle roots and inventories."""
