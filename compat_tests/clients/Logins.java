import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends records to a topic with each of the given files of settings, and reads the last one. With the first file, it
 * sends for as many milliseconds as the second word says.
 */
public class Logins {
    public static void main(String[] words) throws Exception {
        long milliseconds = Long.parseLong(words[1]);
        for (int index = 2; index < words.length; index++) {
            Properties settings = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(words[index]))) {
                settings.load(reader);
            }
            settings.put("max.block.ms", "20000");
            System.out.println(words[index] + " " + result(settings, words[0], index == 2 ? milliseconds : 0));
        }
    }

    private static String result(Properties settings, String topic, long milliseconds) throws Exception {
        long end = System.currentTimeMillis() + milliseconds;
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            RecordMetadata last;
            do {
                last = producer.send(new ProducerRecord<>(topic, "java")).get();
            } while (System.currentTimeMillis() < end);
            return read(settings, last) ? "served" : "lost";
        } catch (ExecutionException error) {
            return error.getCause() instanceof AuthenticationException ? "refused" : error.toString();
        } catch (AuthenticationException error) {
            return "refused";
        }
    }

    private static boolean read(Properties settings, RecordMetadata place) {
        long end = System.currentTimeMillis() + 20000;
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            var partition = new TopicPartition(place.topic(), place.partition());
            consumer.assign(List.of(partition));
            consumer.seek(partition, place.offset());
            while (System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(1000))) {
                    return record.offset() == place.offset();
                }
            }
            return false;
        }
    }
}
