"""Only frequent users (DataFrame.stat.freqItems) are salted; countries are joined to the users first."""

from pyspark.sql import functions as F

PIECES = 32


def join(events_df, users_df, countries_df):
    found = events_df.stat.freqItems(["user_id"], 0.05).first()
    heavy = [user for user in (found[0] if found is not None and found[0] else []) if user is not None]
    whole = F.array(F.lit(0))
    if heavy:
        is_heavy = F.col("user_id").isin(heavy)
        piece = F.when(is_heavy, F.pmod(F.hash("event_id", "value"), F.lit(PIECES))).otherwise(F.lit(0))
        pieces = F.when(is_heavy, F.sequence(F.lit(0), F.lit(PIECES - 1))).otherwise(whole)
    else:
        piece, pieces = F.lit(0), whole
    people = users_df.join(F.broadcast(countries_df), "country").withColumn("piece", F.explode(pieces))
    cut = events_df.withColumn("piece", piece)
    return cut.join(people, ["user_id", "piece"]).drop("piece")
