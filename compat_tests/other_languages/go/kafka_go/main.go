// What kafka-go does with a topic and a group: creates, produces, consumes as a member, commits, describes, deletes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const records = 200

type report struct {
	Values    []string         `json:"values"`
	Committed map[string]int64 `json:"committed"`
	State     string           `json:"state"`
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()

	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	wanted := []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}}
	check(must(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: wanted})).Errors[topic])

	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, Compression: kafka.Snappy, MaxAttempts: 10,
	}
	messages := []kafka.Message{}
	for i := range records {
		messages = append(messages, kafka.Message{Key: fmt.Append(nil, "key", i), Value: fmt.Append(nil, "value", i)})
	}
	check(writer.WriteMessages(ctx, messages...))
	check(writer.Close())

	said := report{Committed: map[string]int64{}}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond,
	})
	for len(said.Values) < records {
		message := must(reader.FetchMessage(ctx))
		said.Values = append(said.Values, string(message.Value))
		check(reader.CommitMessages(ctx, message))
	}
	described := must(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}}))
	said.State = described.Groups[0].GroupState
	check(reader.Close())

	asked := &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}}}
	for _, partition := range must(client.OffsetFetch(ctx, asked)).Topics[topic] {
		said.Committed[fmt.Sprint(partition.Partition)] = partition.CommittedOffset
	}
	deleted := must(client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}}))
	check(deleted.Errors[group])
	check(must(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})).Errors[topic])
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
