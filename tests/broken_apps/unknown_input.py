import headrace as hr

app = hr.App("payments")
app.source("transactions", schema="id string, amount double")
app.table("cards", hr.postgres("public.cards"), key="card")


@app.stream
def large(transactons):
    return transactons.where("amount > 100")
