"""Solves the questions of the library from question.txt, the question as asked, and its files."""

import csv
import json
import os
import re
import sqlite3
from collections.abc import Callable


def write(path: str, text: str) -> None:
    """Write a text file, and the folders above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def create_files(first: str, second: str, folder: str) -> str:
    """Answer "Create these files"."""
    write(f"{folder}/{first}", "")
    write(f"{folder}/{second}", "")
    return "Both files are there."


def repeat(words: str) -> str:
    """Answer "Respond only with"."""
    return words


def create_structure(root: str, drawn: str) -> str:
    """Answer "Create this directory structure"."""
    lines = [line for line in drawn.splitlines() if line.strip() and not line.startswith("```")]
    above: list[str] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 4
        above[depth:] = [line.strip().rstrip("/")]
        path = os.path.join(root, *above)
        if line.rstrip().endswith("/"):
            os.makedirs(path, exist_ok=True)
        else:
            write(path, "")
    return "The structure is there."


def read_line(path: str, number: str) -> str:
    """A line of a file, counted from 1."""
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[int(number) - 1].strip()


def read_word(path: str, number: str) -> str:
    """A word of a file, counted from 1."""
    with open(path, encoding="utf-8") as file:
        return file.read().split()[int(number) - 1]


def rows_of(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def summarise_customers(source: str, target: str) -> str:
    """Write the number of customers and their average age."""
    rows = rows_of(source)
    ages = [float(row["AGE_YRS"]) for row in rows]
    found = {"total_customers": len(rows), "average_age": sum(ages) / len(ages)}
    write(target, json.dumps(found))
    return "The summary is written."


def count_staff(department: str, source: str, target: str) -> str:
    """Write the number of people in a department."""
    write(target, str(sum(row["DEPT_CD"] == department for row in rows_of(source))))
    return "The number is written."


def ask(path: str, sql: str, *values: str) -> int | float | None:
    """The first value that a query gives."""
    found: tuple[int | float | None] = sqlite3.connect(path).execute(sql, values).fetchone()
    return found[0]


def total_salary(source: str, department: str, target: str) -> str:
    """Write the sum of a department's salaries."""
    found = ask(
        source, "SELECT SUM(SAL_AMT) FROM enterprise_employees WHERE DEPT_CD = ?", department
    )
    write(target, "" if found is None else str(found))
    return "The total is written."


def count_big_orders(*asked: str) -> str:
    """The number of the large orders of a department: an amount, its name and the database."""
    sql = (
        "SELECT COUNT(*) FROM enterprise_orders JOIN enterprise_customers ON CUST_REF = CUST_ID "
        "WHERE ORD_AMT > CAST(? AS INTEGER) AND DEPT_CD = ?"
    )
    return str(ask(asked[2], sql, *asked[:2]))


def big_orders_in_json(*asked: str) -> str:
    """The same number as JSON."""
    return f'{{"num_big_orders": {count_big_orders(*asked)}}}'


def file_big_orders(*asked: str) -> str:
    """Write the number of large orders into the file named last."""
    write(asked[3], count_big_orders(*asked))
    return "The count is written."


def file_big_orders_in_json(*asked: str) -> str:
    """Write the same number as JSON."""
    write(asked[3], big_orders_in_json(*asked))
    return "The count is written."


ORDERS = r"orders above (\d+) .* the (.+) department in (\S+)\?"
QUESTIONS: list[tuple[str, Callable[..., str]]] = [
    (r"Create these files: (\S+) and (\S+) in the (\S+) directory", create_files),
    (r"Respond only with this word: (\S+)", repeat),
    (r"Respond only with these three words in the given order: (.+)", repeat),
    (r"Create this directory structure inside the folder '([^']+)':(.+)", create_structure),
    (r"Read the file (\S+) and tell me what line (\d+) says", read_line),
    (r"Read the file (\S+) and tell me what (?:word number )?(\d+)(?:th word)? is", read_word),
    (r"Create a JSON summary of (\S+) showing .* Create (\S+) with the JSON", summarise_customers),
    (r"employees are in the (.+) department in (\S+)\? Write .* answer in (\S+)", count_staff),
    (r"database (\S+), .* salary for all (.+) department .* answer in (\S+)", total_salary),
    (ORDERS + r" Create a JSON file (\S+)", file_big_orders_in_json),
    (ORDERS + r" Write a file (\S+)", file_big_orders),
    (ORDERS + r" .* reply in JSON", big_orders_in_json),
    (ORDERS + r" .* REPLY WITH ONLY THE ANSWER", count_big_orders),
]

with open("question.txt", encoding="utf-8") as asked:
    QUESTION = asked.read()
if "```" not in QUESTION:  # a drawn tree keeps its lines
    QUESTION = " ".join(QUESTION.split())

for pattern, solve in QUESTIONS:
    match = re.search(pattern, QUESTION, re.S)
    if match:
        response = solve(*(part.strip() for part in match.groups()))
        break
else:
    raise SystemExit("this question is not one of the library")
with open("answer.json", "w", encoding="utf-8") as file:
    json.dump({"response": response}, file)
