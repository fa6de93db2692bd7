import headrace as hr

app = hr.App("payments")
app.stream("card-payments", schema="id string, amount double")


@app.stream
def large(card_payments):
    return card_payments.where("amount > 100")
