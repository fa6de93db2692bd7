import headrace as hr

app = hr.App("payments")
app.stream("transactions", schema="id string, amount double")
app.stream("alerts", schema="id string")


@app.stream
def alerts(transactions):
    return transactions.where("amount > 100")
