// Uses KafkaJS on a topic and a group: create, produce, consume as a member, commit, describe, delete.
import kafkajs from 'kafkajs'

const [bootstrap, topic, group] = process.argv.slice(2)
const records = Array.from({ length: 200 }, (_, i) => ({ key: `key${i}`, value: `value${i}` }))
const kafka = new kafkajs.Kafka({ brokers: [bootstrap], logLevel: kafkajs.logLevel.ERROR })

const admin = kafka.admin()
await admin.connect()
await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] })

const producer = kafka.producer({ idempotent: true, createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
await producer.connect()
await producer.send({ topic, compression: kafkajs.CompressionTypes.GZIP, messages: records })
await producer.disconnect()

const values = []
const consumer = kafka.consumer({ groupId: group, heartbeatInterval: 300 })
await consumer.connect()
await consumer.subscribe({ topic, fromBeginning: true })
await new Promise((resolve) =>
  consumer.run({
    eachMessage: async ({ message }) => {
      if (values.push(message.value.toString()) === records.length) resolve()
    }
  })
)
const { groups } = await admin.describeGroups([group])
await consumer.stop() // it commits before it stops
await consumer.disconnect()

const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
const committed = Object.fromEntries(partitions.map(({ partition, offset }) => [partition, Number(offset)]))
await admin.deleteGroups([group])
await admin.deleteTopics({ topics: [topic] })
await admin.disconnect()
console.log(JSON.stringify({ values, committed, state: groups[0].state }))
