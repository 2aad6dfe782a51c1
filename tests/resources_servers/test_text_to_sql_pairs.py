"""Pairs of queries: those that mean the same are rewarded, those that do not come apart.

The databases are such as rows have them: few rows, keys and references that nobody declared, dates
as text, flags as numbers. What holds in them holds in their variants, so that no right query is
found wrong on rows that no such database would hold.
"""

from datetime import UTC, datetime

import pytest

from palestra.resources_servers.text_to_sql.execution import compare

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
SHOP = """
CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY, name TEXT, email TEXT, city TEXT, country TEXT,
  signup_date TEXT NOT NULL, is_active INTEGER DEFAULT 1, phone TEXT);
CREATE TABLE orders (
  order_id INTEGER, customer_id INTEGER, order_date TEXT, shipped_date TEXT, amount REAL,
  status TEXT);
CREATE TABLE products (
  product_id INTEGER PRIMARY KEY, product_name TEXT, category TEXT, price REAL, stock INTEGER,
  rating INTEGER, launched DATE);
CREATE TABLE order_items (order_id INTEGER, product_id INTEGER, quantity INTEGER);
INSERT INTO customers VALUES
(1, 'Ana Reis', 'ana@example.com', 'Porto', 'Portugal', '2022-01-15', 1, NULL),
(2, 'Ben Cole', 'ben@example.org', 'Leeds', 'UK', '2022-03-02', 0, '555-0102'),
(3, 'Chen Li', 'chen@example.com', 'Porto', 'Portugal', '2023-06-30', 1, '555-0103'),
(4, 'Dora Nagy', 'dora@example.net', 'Leeds', 'UK', '2023-12-31', 1, NULL),
(5, 'Eli Roth', 'eli@example.com', 'Porto', 'Portugal', '2023-11-05', 0, '555-0105'),
(6, 'Fay Moor', 'fay@example.org', 'Leeds', 'UK', '2024-02-10', 1, '555-0106');
INSERT INTO orders VALUES
(101, 1, '2023-01-05', '2023-01-07', 120.50, 'completed'),
(102, 1, '2023-02-11', '2023-02-11', 80.00, 'completed'),
(103, 2, '2023-02-28', NULL, 45.25, 'pending'),
(104, 3, '2023-12-31', '2024-01-03', 300.00, 'cancelled'),
(105, 3, '2024-01-01', '2024-01-04', 15.75, 'completed'),
(106, 5, '2024-03-15', NULL, 220.00, 'pending'),
(107, 6, '2024-03-15', '2024-03-18', 99.99, 'completed');
INSERT INTO products VALUES
(1, 'Lamp', 'Home', 40.00, 12, 4, '2021-05-01'), (2, 'Desk', 'Home', 220.00, 3, 5, '2022-08-15'),
(3, 'Pen', 'Office', 2.50, 400, 3, '2020-01-10'), (4, 'Chair', 'Office', 99.99, 7, 5, '2023-02-20'),
(5, 'Rug', 'Home', 80.00, 1, 2, '2021-11-30');
INSERT INTO order_items VALUES (101, 1, 2), (101, 3, 10), (102, 5, 1), (103, 3, 4), (104, 2, 1),
(105, 3, 6), (106, 2, 1), (107, 4, 1);
"""

STAFF = """
CREATE TABLE departments (dept_id INTEGER PRIMARY KEY, dept_name VARCHAR(40) UNIQUE NOT NULL,
  budget INTEGER NOT NULL);
CREATE TABLE employees (emp_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL,
  last_name TEXT NOT NULL, dept_id INTEGER NOT NULL REFERENCES departments(dept_id),
  salary INTEGER NOT NULL CHECK (salary > 0), hire_date DATE NOT NULL,
  manager_id INTEGER REFERENCES employees(emp_id), gender TEXT);
INSERT INTO departments VALUES (10, 'Sales', 50000), (20, 'Legal', 30000), (30, 'Labs', 90000);
INSERT INTO employees VALUES
(1, 'Ida', 'Boon', 10, 5200, '2019-04-01', NULL, 'F'),
(2, 'Jon', 'Clay', 10, 4100, '2020-07-15', 1, 'M'),
(3, 'Kai', 'Dahl', 20, 6100, '2018-01-20', NULL, 'M'),
(4, 'Lea', 'Eich', 30, 7500, '2021-09-30', 3, 'F'),
(5, 'Max', 'Fenn', 30, 6900, '2022-02-28', 4, 'M'),
(6, 'Noa', 'Gill', 10, 4100, '2023-05-05', 1, 'F');
"""

BARE = """
CREATE TABLE students (id INT, name VARCHAR(50), birth_date DATE, gpa FLOAT, major VARCHAR(30));
CREATE TABLE enrollments (student_id INT, course VARCHAR(50), grade INT);
"""

TEAM = """
CREATE TABLE emp (id INTEGER PRIMARY KEY, name TEXT, boss INTEGER REFERENCES emp(id));
INSERT INTO emp VALUES (1, 'Ann', NULL), (2, 'Bob', 1), (3, 'Cy', 1), (4, 'Di', 3), (5, 'Ed', 1);
"""
TEAM_UNDECLARED = TEAM.replace(" REFERENCES emp(id)", "")
FIRM = """
CREATE TABLE emp (id INTEGER PRIMARY KEY, name TEXT, dept TEXT, salary REAL, hired DATE,
  boss_id INTEGER REFERENCES emp(id));
CREATE TABLE dept (code TEXT PRIMARY KEY, city TEXT);
INSERT INTO emp VALUES (1, 'Ann', 'IT', 100.5, '2020-01-05', NULL),
  (2, 'Bob', 'IT', 90, '2021-03-04', 1), (3, 'Cy', 'HR', 80, '2019-07-01', 1),
  (4, 'Di', 'HR', 95, '2022-11-30', 3), (5, 'Ed', 'Ops', 70, '2020-06-15', 1);
INSERT INTO dept VALUES ('IT', 'Rome'), ('HR', 'Oslo'), ('Ops', 'Rome');
"""
FILMS = """
CREATE TABLE p (id INTEGER PRIMARY KEY, title TEXT, genre TEXT, year INTEGER, rating REAL);
INSERT INTO p VALUES (1, 'Alien', 'SF', 1979, 8.5), (2, 'Up', 'Kids', 2009, 8.3),
  (3, 'Heat', 'Crime', 1995, 8.3);
"""
FRIENDS = """
CREATE TABLE s (id INT, sname TEXT, grade INT); CREATE TABLE f (student_id INT, friend_id INT);
INSERT INTO s VALUES (1, 'A', 9), (2, 'B', 9), (3, 'C', 10);
INSERT INTO f VALUES (1, 2), (1, 3), (2, 3);
"""

UNDER_ANN = "SELECT a.name FROM emp a JOIN emp b ON a.boss = b.id WHERE b.name = 'Ann'"
UNDER_ANN_BY_ID = UNDER_ANN.replace("boss", "boss_id")
OVER_85 = "SELECT name FROM emp WHERE salary > 85"
IN_THE_NINETIES = "SELECT title FROM p WHERE year BETWEEN 1990 AND 1999"
COMPLETED = "SELECT order_id FROM orders WHERE status = 'completed'"
CUSTOMERS_WITH_ORDERS = (
    "SELECT name FROM customers WHERE customer_id IN (SELECT customer_id FROM orders)"
)
IN_2023 = "SELECT order_id FROM orders WHERE order_date BETWEEN '2023-01-01' AND '2023-12-31'"

SAME = [
    # Joins, subqueries and set operations.
    (SHOP, CUSTOMERS_WITH_ORDERS, "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id)"),
    (SHOP, CUSTOMERS_WITH_ORDERS, "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.customer_id"),
    (SHOP, "SELECT c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id WHERE o.customer_id IS NULL", "SELECT name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)"),
    (SHOP, "SELECT c.name FROM customers c LEFT OUTER JOIN orders o USING (customer_id) WHERE o.customer_id IS NULL", "SELECT name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)"),
    (FRIENDS, "SELECT s.sname FROM s LEFT JOIN f ON s.id = f.student_id WHERE f.student_id IS NULL", "SELECT sname FROM s WHERE id NOT IN (SELECT student_id FROM f)"),
    (SHOP, "SELECT name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)", "SELECT c.name FROM customers c LEFT JOIN orders o USING (customer_id) WHERE o.order_id IS NULL"),
    (SHOP, "SELECT order_id FROM orders", "SELECT o.order_id FROM orders o JOIN customers c ON c.customer_id = o.customer_id"),
    (SHOP, "SELECT COUNT(*) FROM order_items", "SELECT COUNT(*) FROM order_items i JOIN orders o USING (order_id) JOIN products p USING (product_id)"),
    (STAFF, "SELECT e.first_name FROM employees e JOIN employees m ON m.emp_id = e.manager_id", "SELECT first_name FROM employees WHERE manager_id IS NOT NULL"),
    (STAFF, "SELECT d.dept_name, AVG(e.salary) FROM departments d JOIN employees e USING (dept_id) GROUP BY d.dept_id", "SELECT d.dept_name, AVG(e.salary) FROM employees e, departments d WHERE e.dept_id = d.dept_id GROUP BY d.dept_name"),
    # Counting.
    (SHOP, "SELECT COUNT(*) FROM orders", "SELECT COUNT(order_id) FROM orders"),
    (SHOP, "SELECT city, COUNT(*) FROM customers GROUP BY city", "SELECT city, COUNT(DISTINCT customer_id) FROM customers GROUP BY city"),
    (SHOP, "SELECT COUNT(*) FROM customers", "SELECT COUNT(DISTINCT email) FROM customers"),
    (SHOP, "SELECT COUNT(*) FROM orders WHERE status = 'pending'", "SELECT SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END) FROM orders"),
    (SHOP, "SELECT COUNT(*) FROM orders WHERE amount > 100", "SELECT COALESCE(SUM(amount > 100), 0) FROM orders"),
    # What holds in the rows: no name twice, a city in one country, shipped after ordered.
    (SHOP, "SELECT DISTINCT email FROM customers", "SELECT email FROM customers"),
    (SHOP, "SELECT product_name FROM products", "SELECT DISTINCT product_name FROM products"),
    (SHOP, "SELECT c.name, SUM(o.amount) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.customer_id", "SELECT c.name, SUM(o.amount) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.name"),
    (SHOP, "SELECT city, COUNT(*) FROM customers GROUP BY city", "SELECT city, COUNT(*) FROM customers GROUP BY city, country"),
    (SHOP, "SELECT COUNT(*) FROM order_items WHERE order_id = 101", "SELECT COUNT(DISTINCT product_id) FROM order_items WHERE order_id = 101"),
    (SHOP, "SELECT order_id, julianday(shipped_date) - julianday(order_date) FROM orders WHERE shipped_date IS NOT NULL", "SELECT order_id, ABS(julianday(shipped_date) - julianday(order_date)) FROM orders WHERE shipped_date IS NOT NULL"),
    (STAFF, "SELECT first_name || ' ' || last_name, COUNT(*) FROM employees GROUP BY emp_id", "SELECT first_name || ' ' || last_name, COUNT(*) FROM employees GROUP BY first_name, last_name"),
    (STAFF, "SELECT COUNT(*) FROM employees WHERE gender = 'F'", "SELECT COUNT(*) FROM employees WHERE gender != 'M'"),
    (SHOP, "SELECT name FROM customers WHERE is_active = 1", "SELECT name FROM customers WHERE is_active != 0"),
    (SHOP, "SELECT name FROM customers WHERE is_active = 1", "SELECT name FROM customers WHERE is_active"),
    (SHOP, "SELECT product_name FROM products WHERE stock = 0 OR stock > 10", "SELECT product_name FROM products WHERE stock <= 0 OR stock > 10"),
    (SHOP, "SELECT product_name FROM products WHERE rating >= 4", "SELECT product_name FROM products WHERE rating IN (4, 5)"),
    (SHOP, "SELECT category, ROUND(AVG(price), 2) FROM products GROUP BY category", "SELECT category, ROUND(SUM(price) / COUNT(price), 2) FROM products GROUP BY category"),
    # Dates as they are written.
    (SHOP, "SELECT order_id FROM orders WHERE strftime('%Y', order_date) = '2023'", "SELECT order_id FROM orders WHERE order_date LIKE '2023%'"),
    (SHOP, "SELECT order_id FROM orders WHERE strftime('%Y', order_date) = '2023'", IN_2023),
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE order_date >= '2023-01-01' AND order_date < '2024-01-01'"),
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE CAST(substr(order_date, 1, 4) AS INTEGER) = 2023"),
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE date(order_date) >= date('2023-01-01') AND date(order_date) <= date('2023-12-31')"),
    (SHOP, "SELECT strftime('%m', order_date), SUM(amount) FROM orders GROUP BY 1", "SELECT substr(order_date, 6, 2), SUM(amount) FROM orders GROUP BY substr(order_date, 6, 2)"),
    (SHOP, "SELECT name FROM customers WHERE signup_date >= date('now', '-30 days')", "SELECT name FROM customers WHERE signup_date BETWEEN date('now', '-30 days') AND date('now')"),
    (SHOP, "SELECT name, julianday('now') - julianday(signup_date) FROM customers", "SELECT name, julianday(CURRENT_TIMESTAMP) - julianday(date(signup_date)) FROM customers"),
    (STAFF, "SELECT first_name FROM employees WHERE strftime('%Y', hire_date) < '2020'", "SELECT first_name FROM employees WHERE hire_date < '2020-01-01'"),
    # Order, ties, limits.
    (STAFF, "SELECT MAX(salary) FROM employees", "SELECT salary FROM employees ORDER BY salary DESC LIMIT 1"),
    (STAFF, "SELECT first_name FROM employees ORDER BY hire_date DESC LIMIT 3", "SELECT first_name FROM (SELECT * FROM employees ORDER BY hire_date DESC) LIMIT 3"),
    (SHOP, "SELECT name FROM customers ORDER BY name", "SELECT name FROM customers ORDER BY name COLLATE NOCASE"),
    # Texts.
    (SHOP, "SELECT name FROM customers WHERE name LIKE 'A%'", "SELECT name FROM customers WHERE substr(name, 1, 1) = 'A'"),
    (SHOP, "SELECT email FROM customers WHERE email LIKE '%@example.com'", "SELECT email FROM customers WHERE substr(email, instr(email, '@') + 1) = 'example.com'"),
    (SHOP, "SELECT name FROM customers WHERE name LIKE 'A%'", "SELECT name FROM customers WHERE name GLOB 'A*'"),
    (SHOP, "SELECT order_id FROM orders WHERE status IN ('pending', 'completed')", "SELECT order_id FROM orders WHERE status = 'pending' OR status = 'completed'"),
    (SHOP, "SELECT order_id FROM orders WHERE status = 'pending'", 'SELECT order_id FROM orders WHERE status = "pending"'),
    # A column named for a table refers to it; a name may be another row's, a number much larger.
    (FIRM, "SELECT e.name, d.city FROM emp e JOIN dept d ON e.dept = d.code", "SELECT e.name, (SELECT city FROM dept WHERE code = e.dept) FROM emp e"),
    (FIRM, "SELECT AVG(salary) FROM emp WHERE dept = 'IT'", "SELECT AVG(e.salary) FROM emp e JOIN dept d ON d.code = e.dept WHERE e.dept = 'IT'"),
    (TEAM, UNDER_ANN, "SELECT name FROM emp WHERE boss = (SELECT id FROM emp WHERE name = 'Ann')"),
    (TEAM_UNDECLARED, UNDER_ANN, "SELECT name FROM emp e WHERE EXISTS (SELECT 1 FROM emp WHERE id = e.boss AND name = 'Ann')"),
    (TEAM, UNDER_ANN.replace("a.name", "COUNT(*)"), "SELECT SUM(b.name = 'Ann') FROM emp a JOIN emp b ON a.boss = b.id"),
    (FILMS, IN_THE_NINETIES, "SELECT title FROM p WHERE year LIKE '199%'"),
    (FILMS, IN_THE_NINETIES, "SELECT title FROM p WHERE year / 10 = 199"),
    (FRIENDS, "SELECT sname FROM s WHERE id IN (SELECT student_id FROM f GROUP BY student_id HAVING COUNT(*) > 1)", "SELECT sname FROM s JOIN f ON s.id = f.student_id GROUP BY s.id HAVING COUNT(*) > 1"),
    # Nothing but a schema.
    (BARE, "SELECT name FROM students WHERE gpa > 3.5", "SELECT s.name FROM students s WHERE NOT s.gpa <= 3.5"),
    (BARE, "SELECT COUNT(*) FROM students WHERE major = 'Physics'", "SELECT COUNT(id) FROM students WHERE major IN ('Physics')"),
    (BARE, "SELECT s.name, COUNT(e.course) FROM students s LEFT JOIN enrollments e ON e.student_id = s.id GROUP BY s.id", "SELECT name, (SELECT COUNT(*) FROM enrollments WHERE student_id = students.id) FROM students"),
    (BARE, "SELECT name FROM students WHERE strftime('%Y', birth_date) = '2000'", "SELECT name FROM students WHERE birth_date BETWEEN '2000-01-01' AND '2000-12-31'"),
]  # fmt: skip

ONE_WAY = [
    # An order among equals that was not asked for is as good as any; one that was is not.
    (STAFF, "SELECT first_name, salary FROM employees ORDER BY salary", "SELECT first_name, salary FROM employees ORDER BY salary ASC, emp_id DESC"),
    (SHOP, "SELECT category FROM products", "SELECT category FROM products ORDER BY price"),
    # The row that is named is there, wherever nothing would decide.
    (FIRM, "SELECT name FROM emp WHERE salary <> (SELECT salary FROM emp WHERE name = 'Ann')", "SELECT name FROM emp WHERE salary NOT IN (SELECT salary FROM emp WHERE name = 'Ann')"),
]  # fmt: skip

OTHER = [
    (SHOP, CUSTOMERS_WITH_ORDERS, "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.customer_id"),
    (SHOP, "SELECT c.name, COUNT(o.order_id) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id", "SELECT c.name, COUNT(o.order_id) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.customer_id"),
    (SHOP, "SELECT COUNT(*) FROM customers", "SELECT COUNT(phone) FROM customers"),
    (SHOP, "SELECT COUNT(DISTINCT city) FROM customers", "SELECT COUNT(city) FROM customers"),
    (SHOP, "SELECT COUNT(*) FROM customers", "SELECT 6"),
    (SHOP, "SELECT product_name FROM products WHERE price > 50", "SELECT product_name FROM products WHERE price >= 80"),
    (SHOP, "SELECT product_name FROM products WHERE stock < 10", "SELECT product_name FROM products WHERE stock <= 10"),
    (SHOP, "SELECT product_name FROM products WHERE price > 50", "SELECT product_name FROM products WHERE price > 51"),
    (SHOP, "SELECT product_name FROM products WHERE rating = 5", "SELECT product_name FROM products WHERE rating >= 4 AND stock < 10"),
    (SHOP, "SELECT category, SUM(stock) FROM products GROUP BY category", "SELECT category, COUNT(stock) FROM products GROUP BY category"),
    (SHOP, "SELECT category FROM products GROUP BY category HAVING COUNT(*) > 2", "SELECT category FROM products GROUP BY category HAVING COUNT(*) > 1"),
    (SHOP, "SELECT category FROM products GROUP BY category HAVING COUNT(*) >= 2", "SELECT DISTINCT category FROM products"),
    # Texts: another case, a value that nobody has yet, part of a text.
    (SHOP, COMPLETED, "SELECT order_id FROM orders WHERE status LIKE 'completed'"),
    (SHOP, COMPLETED, "SELECT order_id FROM orders WHERE status = 'completed' COLLATE NOCASE"),
    (SHOP, COMPLETED, "SELECT order_id FROM orders WHERE status NOT IN ('pending', 'cancelled')"),
    (SHOP, "SELECT order_id FROM orders WHERE status != 'cancelled'", "SELECT order_id FROM orders WHERE status IN ('pending', 'completed')"),
    (SHOP, "SELECT name FROM customers WHERE city = 'Porto'", "SELECT name FROM customers WHERE country = 'Portugal' AND city <> 'Lisbon'"),
    (SHOP, "SELECT name FROM customers WHERE city = 'Porto'", "SELECT name FROM customers WHERE city LIKE '%Porto%'"),
    (SHOP, "SELECT name FROM customers WHERE name LIKE 'A%'", "SELECT name FROM customers WHERE name LIKE '%a%' AND name LIKE '%n%' AND city = 'Porto'"),
    (SHOP, "SELECT product_name FROM products WHERE product_name = 'Pen'", "SELECT product_name FROM products WHERE product_name LIKE 'Pe%'"),
    # LIKE finds a letter in either case, where texts begin with a capital one.
    (FILMS, "SELECT title FROM p WHERE title LIKE '%e%'", "SELECT title FROM p WHERE instr(title, 'e') > 0"),
    # A key copied from the rows, where the same name might be another row's.
    (TEAM, UNDER_ANN, "SELECT name FROM emp WHERE boss = 1"),
    (TEAM_UNDECLARED, UNDER_ANN, "SELECT name FROM emp WHERE boss = 1"),
    (FIRM, UNDER_ANN_BY_ID, "SELECT name FROM emp WHERE boss_id = 1"),
    (FIRM, UNDER_ANN_BY_ID.replace("'Ann'", "'Cy'"), "SELECT name FROM emp WHERE boss_id = 3"),
    (FIRM, UNDER_ANN_BY_ID.replace("a.name", "SUM(a.salary)"), "SELECT SUM(salary) FROM emp WHERE boss_id = 1"),
    (FIRM, UNDER_ANN_BY_ID.replace("a.name", "COUNT(*)"), "SELECT COUNT(*) FROM emp WHERE boss_id = 1"),
    (FIRM, "SELECT salary FROM emp WHERE name = 'Ann'", "SELECT salary FROM emp WHERE id = 1"),
    # Limits that are beyond the rows at hand, and above their numbers.
    (FIRM, OVER_85, f"{OVER_85} LIMIT 10"),
    (FIRM, OVER_85, f"{OVER_85} LIMIT 20"),
    (FIRM, OVER_85, f"{OVER_85} AND salary < 200"),
    (FIRM, OVER_85, f"{OVER_85} AND salary < 1000"),
    # A row of one table that several of another refer to.
    (FRIENDS, "SELECT AVG(grade) FROM s JOIN f ON id = student_id", "SELECT AVG(grade) FROM s WHERE id IN (SELECT student_id FROM f)"),
    # Dates: a day more or less, and now.
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE order_date >= '2023-01-01'AND order_date <= '2024-01-01'"),
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE order_date > '2023-01-01' AND order_date <= '2023-12-31'"),
    (SHOP, IN_2023, "SELECT order_id FROM orders WHERE order_date <= '2023-12-31'"),
    (SHOP, "SELECT order_id FROM orders WHERE strftime('%m', order_date) = '02'", "SELECT order_id FROM orders WHERE order_date LIKE '2023-02%'"),
    (SHOP, "SELECT name FROM customers WHERE signup_date >= date('now', '-30 days')", "SELECT name FROM customers WHERE signup_date >= date('now', '-31 days')"),
    (SHOP, "SELECT name FROM customers WHERE signup_date >= date('now', '-1 year')", "SELECT name FROM customers WHERE signup_date > date('now', '-6 months')"),
    (SHOP, "SELECT COUNT(*) FROM orders WHERE order_date >= date('now', '-7 days')", "SELECT 0"),
    (STAFF, "SELECT first_name FROM employees WHERE hire_date < date('now', '-5 years')", "SELECT first_name FROM employees WHERE hire_date < date('now', '-4 years')"),
    # Order, ties, NULL.
    (STAFF, "SELECT first_name FROM employees ORDER BY salary DESC", "SELECT first_name FROM employees ORDER BY salary"),
    (STAFF, "SELECT first_name FROM employees WHERE salary = (SELECT MAX(salary) FROM employees)", "SELECT first_name FROM employees ORDER BY salary DESC LIMIT 1"),
    (STAFF, "SELECT first_name FROM employees WHERE manager_id IS NULL", "SELECT first_name FROM employees WHERE emp_id NOT IN (SELECT emp_id FROM employees WHERE manager_id > 1)"),
    (STAFF, "SELECT first_name FROM employees WHERE manager_id <> 1", "SELECT first_name FROM employees WHERE COALESCE(manager_id, 0) <> 1"),
    (STAFF, "SELECT dept_name FROM departments WHERE budget > 40000", "SELECT dept_name FROM departments WHERE dept_name <> 'Legal'"),
    (STAFF, "SELECT DISTINCT dept_id FROM employees", "SELECT dept_id FROM departments"),
    (BARE, "SELECT name FROM students WHERE gpa > 3.5", "SELECT name FROM students WHERE gpa >= 3.5"),
    (BARE, "SELECT name FROM students WHERE major = 'Physics'", "SELECT name FROM students"),
]  # fmt: skip


@pytest.mark.parametrize(("context", "reference", "candidate"), SAME + ONE_WAY)
def test_a_query_that_means_the_same_is_right(context: str, reference: str, candidate: str) -> None:
    assert compare(context, reference, candidate, NOW)[0] == "same"


@pytest.mark.parametrize(("context", "reference", "candidate"), SAME)
def test_it_is_right_the_other_way_round_as_well(
    context: str, reference: str, candidate: str
) -> None:
    assert compare(context, candidate, reference, NOW)[0] == "same"


@pytest.mark.parametrize(("context", "reference", "candidate"), OTHER)
def test_a_query_that_means_something_else_is_wrong(
    context: str, reference: str, candidate: str
) -> None:
    assert compare(context, reference, candidate, NOW)[0] == "different"
