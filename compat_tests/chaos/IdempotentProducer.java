import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends numbered records to all partitions in turn until its standard input ends, and prints the result of each. */
public class IdempotentProducer {
    private static final int PAUSE_MS = 2;

    public static void main(String[] words) throws InterruptedException {
        String name = words[0];
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[1],
            "delivery.timeout.ms", words[2],
            "max.block.ms", words[2],
            "request.timeout.ms", "5000",
            "linger.ms", "1",
            "reconnect.backoff.max.ms", "200",
            "metadata.max.age.ms", "1000"
        );
        String[] places = Arrays.copyOfRange(words, 3, words.length);
        int[] counts = new int[places.length];

        CompletableFuture<Void> end = CompletableFuture.runAsync(IdempotentProducer::waitForTheEndOfInput);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (!end.isDone()) {
                for (int number = 0; number < places.length; number++) {
                    send(producer, places[number], name + ":" + counts[number]++);
                    Thread.sleep(PAUSE_MS);
                }
            }
        }
        for (int number = 0; number < places.length; number++) {
            say("sent", places[number].replace(':', '\t'), counts[number]);
        }
    }

    private static void send(KafkaProducer<String, String> producer, String place, String value) {
        String[] words = place.split(":");
        var record = new ProducerRecord<String, String>(words[0], Integer.valueOf(words[1]), null, value);
        producer.send(record, (stored, error) -> {
            if (error == null) {
                say("acknowledged", words[0], words[1], stored.offset(), value);
            } else {
                say("refused", words[0], words[1], value, error);
            }
        });
    }

    private static void say(Object... words) {
        System.out.println(String.join("\t", Arrays.stream(words).map(String::valueOf).toList()));
    }

    private static void waitForTheEndOfInput() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException closed) {
            return;
        }
    }
}
