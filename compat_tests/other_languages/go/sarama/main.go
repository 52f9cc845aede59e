// Uses sarama on a topic and a group: create, produce, consume as a member, commit, describe, delete.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"tailrace.test/report"
)

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
	admin := report.Must(sarama.NewClusterAdmin(brokers, config))
	report.Check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))

	producer := report.Must(sarama.NewSyncProducer(brokers, config))
	messages := []*sarama.ProducerMessage{}
	for i := range report.Records {
		key, value := sarama.StringEncoder(fmt.Sprint("key", i)), sarama.StringEncoder(fmt.Sprint("value", i))
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: key, Value: value})
	}
	report.Check(producer.SendMessages(messages))
	report.Check(producer.Close())

	said := report.New()
	consumer := report.Must(sarama.NewConsumerGroup(brokers, group, config))
	reading := member{values: make(chan string)}
	ended := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	go func() { ended <- consumer.Consume(consuming, []string{topic}, reading) }()
	for !said.IsComplete() {
		select {
		case value := <-reading.values:
			said.Values = append(said.Values, value)
		case err := <-ended:
			panic(fmt.Sprint("the session ended early: ", err))
		case <-ctx.Done():
			panic(ctx.Err())
		}
	}
	said.State = report.Must(admin.DescribeConsumerGroups([]string{group}))[0].State
	stop()
	report.Check(<-ended)
	report.Check(consumer.Close())

	committed := report.Must(admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}}))
	for partition, block := range committed.Blocks[topic] {
		said.Committed[fmt.Sprint(partition)] = block.Offset
	}
	report.Check(admin.DeleteConsumerGroup(group))
	report.Check(admin.DeleteTopic(topic))
	said.Print()
}
