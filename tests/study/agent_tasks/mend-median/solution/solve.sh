#!/bin/bash
cat > median.code <<'END'
def median(values):
    ranked = sorted(values)
    half = len(ranked) // 2
    if len(ranked) % 2:
        return ranked[half]
    return (ranked[half - 1] + ranked[half]) / 2
END
