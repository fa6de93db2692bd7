import headrace as hr

app = hr.App("payments")
transactions = app.source(
    "transactions",
    schema="""
        id string NOT NULL,
        card varchar(20),
        amount double
    """,
    id="id",
)
