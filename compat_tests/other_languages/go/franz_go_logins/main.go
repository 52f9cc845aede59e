// Uses franz-go with every way to prove who it is: TLS, certificates, and the mechanisms of SASL.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"tailrace.test/logins"
)

func main() {
	logins.Run(try)
}

func options(login logins.Login) []kgo.Opt {
	found := []kgo.Opt{kgo.SeedBrokers(login.Address)}
	if config := login.TLS(); config != nil {
		found = append(found, kgo.DialTLSConfig(config))
	}
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: login.User, Pass: login.Password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: login.User, Pass: login.Password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: login.User, Pass: login.Password}.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: login.Token}.AsMechanism(),
	}
	if mechanism, ok := mechanisms[login.Mechanism]; ok {
		found = append(found, kgo.SASL(mechanism))
	}
	return found
}

func try(ctx context.Context, login logins.Login, topic, value string) (string, error) {
	producer, err := kgo.NewClient(append(options(login), kgo.DefaultProduceTopic(topic), kgo.RecordRetries(0))...)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	// A record would be sent again and again, so that a ping tells sooner that the client is refused.
	if err := producer.Ping(ctx); err != nil {
		return "", err
	}
	sent, err := producer.ProduceSync(ctx, kgo.StringRecord(value)).First()
	if err != nil {
		return "", err
	}
	place := map[string]map[int32]kgo.Offset{topic: {sent.Partition: kgo.NewOffset().At(sent.Offset)}}
	consumer, err := kgo.NewClient(append(options(login), kgo.ConsumePartitions(place))...)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	fetched := consumer.PollRecords(ctx, 1)
	if err := fetched.Err(); err != nil {
		return "", err
	}
	return string(fetched.Records()[0].Value), nil
}
