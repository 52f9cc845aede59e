// Uses kafka-go on a topic and a group: create, produce, consume as a member, commit, describe, delete.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"tailrace.test/report"
)

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()

	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	wanted := []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}}
	report.Check(report.Must(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: wanted})).Errors[topic])

	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, Compression: kafka.Snappy, MaxAttempts: 10,
	}
	messages := []kafka.Message{}
	for i := range report.Records {
		messages = append(messages, kafka.Message{Key: fmt.Append(nil, "key", i), Value: fmt.Append(nil, "value", i)})
	}
	report.Check(writer.WriteMessages(ctx, messages...))
	report.Check(writer.Close())

	said := report.New()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond,
	})
	for !said.IsComplete() {
		message := report.Must(reader.FetchMessage(ctx))
		said.Values = append(said.Values, string(message.Value))
		report.Check(reader.CommitMessages(ctx, message))
	}
	described := report.Must(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}}))
	said.State = described.Groups[0].GroupState
	report.Check(reader.Close())

	asked := &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}}}
	for _, partition := range report.Must(client.OffsetFetch(ctx, asked)).Topics[topic] {
		said.Committed[fmt.Sprint(partition.Partition)] = partition.CommittedOffset
	}
	deleted := report.Must(client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}}))
	report.Check(deleted.Errors[group])
	report.Check(report.Must(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})).Errors[topic])
	said.Print()
}
