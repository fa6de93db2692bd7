import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")
app.source("alerts", schema="id string")


@app.stream
def alerts(transactions):
    return transactions.where("amount > 100")
