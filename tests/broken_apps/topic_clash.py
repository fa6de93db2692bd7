import headrace as hr

app = hr.App("shop")
app.stream("raw", schema="id string", topic="orders")
app.stream("orders_dead", schema="id string")


@app.stream
def orders(raw):
    return raw.dropDuplicates(["id"])
