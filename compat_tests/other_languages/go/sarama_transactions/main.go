// Uses transactions of sarama: commit, abort, and a group that copies records to another topic exactly once.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"tailrace.test/report"
)

const perTransaction = 10

type copier struct {
	group, copies string
	producer      sarama.SyncProducer
	copied        chan struct{}
}

func (c copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		report.Check(c.producer.BeginTxn())
		made := &sarama.ProducerMessage{Topic: c.copies, Value: sarama.ByteEncoder(message.Value)}
		_, _, err := c.producer.SendMessage(made)
		report.Check(err)
		report.Check(c.producer.AddMessageToTxn(message, c.group, nil))
		report.Check(c.producer.CommitTxn())
		session.MarkMessage(message, "")
		c.copied <- struct{}{}
	}
	return nil
}

func main() {
	brokers, topic, group := []string{os.Args[1]}, os.Args[2], os.Args[3]
	copies := topic + "-copies"
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()

	admin := report.Must(sarama.NewClusterAdmin(brokers, transactional("")))
	report.Check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	report.Check(admin.CreateTopic(copies, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))
	producer := report.Must(sarama.NewSyncProducer(brokers, transactional(topic+"-producer")))
	for start := 0; start < report.Records; start += perTransaction {
		write(producer, topic, start, "value")
		report.Check(producer.CommitTxn())
		write(producer, topic, start, "aborted")
		report.Check(producer.AbortTxn())
	}
	report.Check(producer.Close())

	said := report.New()
	config := transactional("")
	config.Consumer.Offsets.AutoCommit.Enable = false
	consumer := report.Must(sarama.NewConsumerGroup(brokers, group, config))
	copying := copier{group, copies, report.Must(sarama.NewSyncProducer(brokers, transactional(topic+"-copier"))), make(chan struct{})}
	consuming, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- consumer.Consume(consuming, []string{topic}, copying) }()
	for range report.Records {
		select {
		case <-copying.copied:
		case err := <-ended:
			panic(fmt.Sprint("the session ended early: ", err))
		case <-ctx.Done():
			panic(ctx.Err())
		}
	}
	stop()
	report.Check(<-ended)
	report.Check(consumer.Close())
	committed := report.Must(admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	said.Committed["0"] = committed.Blocks[topic][0].Offset
	described := admin.(sarama.TransactionClusterAdmin)
	said.State = report.Must(described.DescribeTransactions([]string{topic + "-producer"}))[topic+"-producer"].TransactionState

	reader := report.Must(sarama.NewConsumer(brokers, config))
	values := make(chan string)
	for partition := range int32(3) {
		part := report.Must(reader.ConsumePartition(copies, partition, sarama.OffsetOldest))
		go func() {
			for message := range part.Messages() {
				values <- string(message.Value)
			}
		}()
	}
	for !said.IsComplete() {
		select {
		case value := <-values:
			said.Values = append(said.Values, value)
		case <-ctx.Done():
			panic(ctx.Err())
		}
	}
	said.Print()
}

func write(producer sarama.SyncProducer, topic string, start int, prefix string) {
	report.Check(producer.BeginTxn())
	messages := []*sarama.ProducerMessage{}
	for i := start; i < start+perTransaction; i++ {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(prefix, i))})
	}
	report.Check(producer.SendMessages(messages))
}

func transactional(id string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	if id != "" {
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = id
	}
	return config
}
