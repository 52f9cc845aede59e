// Uses @platformatic/kafka on a topic and a group: create, produce, consume as a member, commit, describe, delete.
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const [bootstrap, topic, group, groupProtocol] = process.argv.slice(2)
const connection = { clientId: 'test', bootstrapBrokers: [bootstrap] }
const records = Array.from({ length: 200 }, (_, i) => ({ topic, key: `key${i}`, value: `value${i}` }))

const admin = new Admin(connection)
await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })

const producer = new Producer({ ...connection, serializers: stringSerializers, idempotent: true, compression: 'snappy' })
await producer.send({ messages: records, acks: -1 })
await producer.close()

const values = []
const consumer = new Consumer({ ...connection, groupId: group, groupProtocol, deserializers: stringDeserializers })
const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: false, heartbeatInterval: 300 })
for await (const message of stream) {
  await message.commit()
  if (values.push(message.value) === records.length) break
}
const listed = await admin.listGroups({ types: ['classic', 'consumer'] })
const { state } = listed.get(group)
await consumer.close(true)

const [fetched] = await admin.listConsumerGroupOffsets({ groups: [{ groupId: group, topics: [{ name: topic, partitionIndexes: [0, 1, 2] }] }] })
const committed = Object.fromEntries(
  fetched.topics[0].partitions.map(({ partitionIndex, committedOffset }) => [partitionIndex, Number(committedOffset)])
)
await admin.deleteGroups({ groups: [group] })
await admin.deleteTopics({ topics: [topic] })
await admin.close()
console.log(JSON.stringify({ values, committed, state }))
