// What franz-go does with a topic and a group: creates, produces, consumes as a member, commits, describes, deletes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 200

type report struct {
	Values    []string         `json:"values"`
	Committed map[string]int64 `json:"committed"`
	State     string           `json:"state"`
}

func main() {
	bootstrap, topic, group, protocol := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()

	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.WithContext(ctx),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client := must(kgo.NewClient(options...))
	admin := kadm.NewClient(client)
	must(admin.CreateTopic(ctx, 3, 1, nil, topic))

	for i := range records {
		record := &kgo.Record{Topic: topic, Key: fmt.Append(nil, "key", i), Value: fmt.Append(nil, "value", i)}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
	}
	check(client.Flush(ctx))

	said := report{Committed: map[string]int64{}}
	for len(said.Values) < records {
		fetched := client.PollFetches(ctx)
		for _, failed := range fetched.Errors() {
			check(failed.Err)
		}
		fetched.EachRecord(func(record *kgo.Record) { said.Values = append(said.Values, string(record.Value)) })
	}
	check(client.CommitUncommittedOffsets(ctx))

	said.State = must(admin.ListGroups(ctx))[group].State
	client.LeaveGroup()
	must(admin.FetchOffsets(ctx, group)).Each(func(offset kadm.OffsetResponse) {
		said.Committed[fmt.Sprint(offset.Partition)] = offset.At
	})
	must(admin.DeleteGroup(ctx, group))
	must(admin.DeleteTopic(ctx, topic))
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
