import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs transactions over all partitions until its standard input ends, and prints what became of each. */
public class TransactionalProducer {
    private static final int ATTEMPTS = 4;

    private static String name;
    private static Map<String, Object> settings;

    public static void main(String[] words) {
        name = words[0];
        settings = Map.of(
            "bootstrap.servers", words[1],
            "transactional.id", name,
            "transaction.timeout.ms", words[2],
            "max.block.ms", "15000",
            "delivery.timeout.ms", "60000",
            "request.timeout.ms", "5000",
            "linger.ms", "1",
            "reconnect.backoff.max.ms", "200",
            "metadata.max.age.ms", "1000"
        );
        int perPlace = Integer.parseInt(words[3]);
        int abortEvery = Integer.parseInt(words[4]);
        String[] places = Arrays.copyOfRange(words, 5, words.length);

        CompletableFuture<Void> end = CompletableFuture.runAsync(TransactionalProducer::waitForTheEndOfInput);
        KafkaProducer<String, String> producer = null;
        for (int number = 1; !end.isDone(); number++) {
            try {
                producer = producer == null ? start() : producer;
                say("begun", number);
                producer.beginTransaction();
                for (int index = 0; index < perPlace; index++) {
                    for (String place : places) {
                        String[] parts = place.split(":");
                        String value = name + ":" + number + ":" + index;
                        producer.send(new ProducerRecord<>(parts[0], Integer.valueOf(parts[1]), null, value));
                    }
                }
                if (number % abortEvery == 0) {
                    producer.flush();
                    repeat(producer::abortTransaction);
                } else {
                    say("unknown", number);
                    repeat(producer::commitTransaction);
                    say("committed", number);
                }
            } catch (KafkaException failure) {
                say("failed", failure.getClass().getSimpleName() + " in transaction " + number + ": " + failure.getMessage());
                if (producer != null) {
                    producer.close(java.time.Duration.ZERO);
                    producer = null;
                }
            }
        }
        if (producer != null) {
            producer.close();
        }
    }

    private static KafkaProducer<String, String> start() {
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        try {
            repeat(producer::initTransactions);
        } catch (KafkaException failure) {
            producer.close(java.time.Duration.ZERO);
            throw failure;
        }
        return producer;
    }

    /** Repeats a step that timed out, as its documentation allows. */
    private static void repeat(Runnable step) {
        for (int attempt = 1; ; attempt++) {
            try {
                step.run();
                return;
            } catch (TimeoutException failure) {
                if (attempt == ATTEMPTS) {
                    throw failure;
                }
            }
        }
    }

    private static void say(String what, Object about) {
        System.out.println(what + "\t" + about);
    }

    private static void waitForTheEndOfInput() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException closed) {
            return;
        }
    }
}
