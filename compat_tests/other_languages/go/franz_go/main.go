// Uses franz-go on a topic and a group: create, produce, consume as a member, commit, describe, delete.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"tailrace.test/report"
)

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
	client := report.Must(kgo.NewClient(options...))
	admin := kadm.NewClient(client)
	report.Must(admin.CreateTopic(ctx, 3, 1, nil, topic))

	for i := range report.Records {
		record := &kgo.Record{Topic: topic, Key: fmt.Append(nil, "key", i), Value: fmt.Append(nil, "value", i)}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { report.Check(err) })
	}
	report.Check(client.Flush(ctx))

	said := report.New()
	for !said.IsComplete() {
		fetched := client.PollFetches(ctx)
		for _, failed := range fetched.Errors() {
			report.Check(failed.Err)
		}
		fetched.EachRecord(func(record *kgo.Record) { said.Values = append(said.Values, string(record.Value)) })
	}
	report.Check(client.CommitUncommittedOffsets(ctx))

	said.State = report.Must(admin.ListGroups(ctx))[group].State
	client.LeaveGroup()
	report.Must(admin.FetchOffsets(ctx, group)).Each(func(offset kadm.OffsetResponse) {
		said.Committed[fmt.Sprint(offset.Partition)] = offset.At
	})
	report.Must(admin.DeleteGroup(ctx, group))
	report.Must(admin.DeleteTopic(ctx, topic))
	said.Print()
}
