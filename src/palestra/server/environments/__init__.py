"""Environments in one file: a class, or the function form of it.

environment    what an author writes: the class `Environment`, `@environment`, `call`
parameters     fill an author's parameters by name
task           the task row, read-only
row_fields     how to read a field of the row, for an error of code that reads it from `self`
own_settings   the annotated attributes of a class, as settings
records        read the rows of `data`: a list, a file, the hub, a function
prompts        make the messages of a row from the templates
method_checks  check an author's methods: `self`, types of tools
hinted_types   the type hints of the parameters that a row fills
shadowed_fields  warn of fields of the rows that a parameter hides
method_calls   check that a rollout can call an author's methods
attribute_types  check the values of the attributes: the prompt is a text
awaiting       refuse calls of async functions whose result is used without `await`
async_calls    which calls of an author's code return a coroutine
definition     a class with its settings: its checks and its task rows
returned_values  what a method returns, by its code: nothing but numbers, always a text, nothing
rewards        what `verify` returned, as a reward with its components
services       what a rollout's object may use: judge, sandbox, random numbers
tool_methods   an author's tool, as a method of the server
interface      the server's settings, and what it exchanges with agent and workers
server         the resources server of a class
"""
