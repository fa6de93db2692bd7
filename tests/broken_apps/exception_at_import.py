import headrace as hr

app = hr.App("payments")
limits = {"gold": 500}
LIMIT = limits["silver"]
