CREATE TABLE customers (id bigint PRIMARY KEY, name text, city text);
CREATE TABLE products (id bigint PRIMARY KEY, name text, price numeric(10, 2));
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, product bigint, quantity int);

INSERT INTO customers VALUES (1, 'Ann', 'Berlin'), (2, 'Bob', 'Paris');
INSERT INTO products VALUES (1, 'lamp', 10.50), (2, 'desk', 99.00);
INSERT INTO orders VALUES (1, 1, 1, 2), (2, 2, 1, 1), (3, 2, 2, 1);
