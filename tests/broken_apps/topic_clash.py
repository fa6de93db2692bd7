import headrace as hr

app = hr.App("shop")
app.source("raw", schema="id string", topic="orders")
app.source("orders_dead", schema="id string")


@app.stream
def orders(raw):
    return raw.dropDuplicates(["id"])
