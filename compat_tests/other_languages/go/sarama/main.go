// What sarama does with a topic and a group: creates, produces, consumes as a member, commits, describes, deletes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const records = 200

type report struct {
	Values    []string         `json:"values"`
	Committed map[string]int64 `json:"committed"`
	State     string           `json:"state"`
}

type member struct {
	values chan string
}

func (m member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "read")
		m.values <- string(message.Value)
	}
	return nil
}

func main() {
	brokers, topic, group := []string{os.Args[1]}, os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()

	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Compression = sarama.CompressionLZ4
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	admin := must(sarama.NewClusterAdmin(brokers, config))
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))

	producer := must(sarama.NewSyncProducer(brokers, config))
	messages := []*sarama.ProducerMessage{}
	for i := range records {
		key, value := sarama.StringEncoder(fmt.Sprint("key", i)), sarama.StringEncoder(fmt.Sprint("value", i))
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: key, Value: value})
	}
	check(producer.SendMessages(messages))
	check(producer.Close())

	said := report{Committed: map[string]int64{}}
	consumer := must(sarama.NewConsumerGroup(brokers, group, config))
	reading := member{values: make(chan string)}
	ended := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	go func() { ended <- consumer.Consume(consuming, []string{topic}, reading) }()
	for len(said.Values) < records {
		select {
		case value := <-reading.values:
			said.Values = append(said.Values, value)
		case err := <-ended:
			panic(fmt.Sprint("the session ended early: ", err))
		case <-ctx.Done():
			panic(ctx.Err())
		}
	}
	said.State = must(admin.DescribeConsumerGroups([]string{group}))[0].State
	stop()
	check(<-ended)
	check(consumer.Close())

	committed := must(admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}}))
	for partition, block := range committed.Blocks[topic] {
		said.Committed[fmt.Sprint(partition)] = block.Offset
	}
	check(admin.DeleteConsumerGroup(group))
	check(admin.DeleteTopic(topic))
	check(json.NewEncoder(os.Stdout).Encode(said))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
