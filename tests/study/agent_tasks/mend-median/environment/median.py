def median(values):
    ranked = sorted(values)
    return ranked[len(ranked) // 2]
