import headrace as hr

app = hr.App("payments")
app.source("card-payments", schema="id string, amount double")


@app.stream
def large(card_payments):
    return card_payments.where("amount > 100")
