import headrace as hr

app = hr.App("payments")
transactions = app.stream(schema="id string, amount double")
