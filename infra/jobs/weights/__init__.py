"""Jobs on weight volumes: fill, check, copy to another zone, make faster or cheaper, and say how they stand."""
