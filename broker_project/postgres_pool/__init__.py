"""Django's PostgreSQL backend over SQLAlchemy's connection pool: threads share few psycopg2 connections."""
