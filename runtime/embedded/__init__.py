"""What our code needs where another program owns the process, such as the driver of a Spark job."""
