import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends records to a topic with each of the given files of settings, for as many milliseconds as the second word says. */
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
            do {
                producer.send(new ProducerRecord<>(topic, "java")).get();
            } while (System.currentTimeMillis() < end);
            return "sent";
        } catch (ExecutionException error) {
            return error.getCause() instanceof AuthenticationException ? "refused" : error.toString();
        } catch (AuthenticationException error) {
            return "refused";
        }
    }
}
