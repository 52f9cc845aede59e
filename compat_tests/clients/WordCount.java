import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** Counts the keys of a topic exactly once, and writes each new count to another topic, until standard input ends. */
public class WordCount {
    public static void main(String[] words) throws IOException {
        String name = words[2];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", name);
        settings.put("state.dir", words[1]);
        settings.put("replication.factor", "3");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "50");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "500");
        settings.put("producer.linger.ms", "1");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("request.timeout.ms", "5000");

        var builder = new StreamsBuilder();
        builder.stream(name + "-words", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> String.valueOf(count))
            .to(name + "-counts", Produced.with(Serdes.String(), Serdes.String()));

        try (var streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
            streams.close(Duration.ofSeconds(20));
        }
    }
}
