"""The store in a PostgreSQL database, for psycopg 3. Imported only for a store with an address `postgresql://...`."""
