// Uses transactions of franz-go: commit, abort, and a group that copies records to another topic exactly once.
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

const perTransaction = 10

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	copies := topic + "-copies"
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()

	producer := report.Must(kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(topic+"-producer"), kgo.DefaultProduceTopic(topic)))
	admin := kadm.NewClient(producer)
	report.Must(admin.CreateTopics(ctx, 3, 1, nil, topic, copies))
	for start := 0; start < report.Records; start += perTransaction {
		transact(ctx, producer, start, "value", kgo.TryCommit)
		transact(ctx, producer, start, "aborted", kgo.TryAbort)
	}

	said := report.New()
	copyAll(ctx, bootstrap, topic, copies, group)
	report.Must(admin.FetchOffsets(ctx, group)).Each(func(offset kadm.OffsetResponse) {
		said.Committed[fmt.Sprint(offset.Partition)] = offset.At
	})
	described := report.Must(admin.DescribeTransactions(ctx, topic+"-producer"))
	said.State = described[topic+"-producer"].State

	reader := report.Must(kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(copies),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	for !said.IsComplete() {
		fetched := reader.PollFetches(ctx)
		report.Check(fetched.Err0())
		fetched.EachRecord(func(record *kgo.Record) { said.Values = append(said.Values, string(record.Value)) })
	}
	said.Print()
}

func transact(ctx context.Context, producer *kgo.Client, start int, prefix string, end kgo.TransactionEndTry) {
	report.Check(producer.BeginTransaction())
	for i := start; i < start+perTransaction; i++ {
		record := &kgo.Record{Key: fmt.Append(nil, "key", i), Value: fmt.Append(nil, prefix, i)}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { report.Check(err) })
	}
	report.Check(producer.Flush(ctx))
	report.Check(producer.EndTransaction(ctx, end))
}

func copyAll(ctx context.Context, bootstrap, topic, copies, group string) {
	session := report.Must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(topic+"-copier"), kgo.DefaultProduceTopic(copies),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets()))
	defer session.Close()
	for copied := 0; copied < report.Records; {
		fetched := session.PollRecords(ctx, 25)
		report.Check(fetched.Err0())
		report.Check(session.Begin())
		fetched.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: record.Value}, func(_ *kgo.Record, err error) { report.Check(err) })
		})
		if report.Must(session.End(ctx, kgo.TryCommit)) {
			copied += fetched.NumRecords()
		}
	}
}
