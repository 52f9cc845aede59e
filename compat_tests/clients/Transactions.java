import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits, aborts, times out and fences transactions on a topic with three partitions, and says what it has seen. */
public class Transactions {
    private static final int PARTITIONS = 3;
    private static final int TIMEOUT_MS = 1500;

    private static String bootstrap;
    private static String topic;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        topic = words[1];
        commitAndAbort(words[1] + "-plain");
        leaveOpen(words[1] + "-late");
        fence(words[1] + "-zombie");
        sendOffsets(words[1] + "-offsets", words[1] + "-group");
        say("committed", read());
    }

    private static void commitAndAbort(String name) {
        try (var producer = producer(name, 30_000)) {
            for (int number = 0; number < 20; number++) {
                producer.beginTransaction();
                boolean isEmpty = number % 5 > 2;
                for (int partition = 0; partition < PARTITIONS && !isEmpty; partition++) {
                    send(producer, partition, "plain-" + number);
                }
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    /** The coordinator aborts a transaction that its producer leaves open. */
    private static void leaveOpen(String name) throws Exception {
        try (var producer = producer(name, TIMEOUT_MS); var admin = Admin.create(settings())) {
            producer.beginTransaction();
            send(producer, 0, "late");
            producer.flush();
            String state = "";
            while (!state.equals("CompleteAbort")) {
                Thread.sleep(50);
                state = admin.describeTransactions(List.of(name)).description(name).get().state().toString();
            }
            say("late", failureOf(producer::commitTransaction));
            producer.close(Duration.ZERO);
        }
    }

    private static void fence(String name) {
        var zombie = producer(name, 30_000);
        zombie.beginTransaction();
        send(zombie, 1, "zombie");
        zombie.flush();
        try (var producer = producer(name, 30_000)) {
            say("zombie", failureOf(zombie::commitTransaction));
            producer.beginTransaction();
            send(producer, 1, "successor");
            producer.commitTransaction();
        }
        zombie.close(Duration.ZERO);
    }

    private static void sendOffsets(String name, String group) {
        var place = new TopicPartition(topic, 0);
        try (var producer = producer(name, 30_000); var consumer = consumer(group)) {
            for (int offset : new int[] {5, 7}) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(place, new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
                if (offset == 5) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            say("offset", consumer.committed(java.util.Set.of(place)).get(place).offset());
        }
    }

    private static List<String> read() {
        try (var consumer = consumer(topic + "-reader")) {
            List<TopicPartition> places = new ArrayList<>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                places.add(new TopicPartition(topic, partition));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            List<String> values = new ArrayList<>();
            while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    values.add(record.partition() + ":" + record.value());
                }
            }
            return values;
        }
    }

    private static Map<String, Object> settings() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    }

    private static KafkaProducer<String, String> producer(String name, int timeoutMs) {
        Map<String, Object> settings = settings();
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", timeoutMs);
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> settings = settings();
        settings.put("group.id", group);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", false);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void send(KafkaProducer<String, String> producer, int partition, String value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    private static String failureOf(Runnable step) {
        try {
            step.run();
            return "nothing";
        } catch (KafkaException failure) {
            return failure.getClass().getSimpleName();
        }
    }

    private static void say(String what, Object seen) {
        String told = seen instanceof List<?> values ? String.join(",", values.stream().map(String::valueOf).toList())
            : String.valueOf(seen);
        System.out.println(what + "\t" + told);
    }
}
