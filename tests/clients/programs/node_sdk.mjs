// The official Node SDK: chat, streams, tools, structured answers, embeddings, models, errors.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const load = createRequire(`${process.env.NODE_FOLDER}/`);
const OpenAI = load("openai");
const { default: Client } = OpenAI;

const client = new Client({
  baseURL: process.env.BASE_URL,
  apiKey: process.env.CLIENT_KEY,
  maxRetries: 0,
});
const side = process.env.DOUBLE_URL.replace(/\/v1$/, "/_double");

const upstream = async (query = "") => (await fetch(`${side}/state?${query}`)).json();
const ask = (content, members = {}) =>
  client.chat.completions.create({
    model: "echo",
    messages: [{ role: "user", content }],
    ...members,
  });

const joined = async (stream, read) => {
  let text = "";
  for await (const chunk of stream) text += read(chunk.choices[0]?.delta ?? {}) ?? "";
  return text;
};

const tool = (name) => ({
  type: "function",
  function: {
    name,
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
});

const schema = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

const cases = {
  async case_whole() {
    const answer = await ask("hello");
    assert.equal(answer.choices[0].message.content, "You said: hello");
    assert.equal(answer.model, "echo");
    assert.ok(answer._request_id);
    assert.ok(answer.usage.total_tokens > 0);
  },

  async case_streamed() {
    const text = "한국 👩‍👩‍👧 é";
    for (const fault of ["", "[[fault:bytes]]", "[[fault:crlf]]", "[[fault:comments]]"]) {
      const stream = await ask(`${fault}[[say:${text}]]`, { stream: true });
      assert.equal(await joined(stream, (delta) => delta.content), text);
    }
  },

  async case_streamed_with_usage() {
    let last;
    const stream = await ask("hello", { stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) last = chunk;
    assert.deepEqual(last.choices, []);
    assert.ok(last.usage.total_tokens > 0);
  },

  async case_tools_streamed() {
    const runner = client.chat.completions.stream({
      model: "echo",
      messages: [{ role: "user", content: "weather and clock" }],
      tools: [tool("weather"), tool("clock")],
    });
    const { message } = (await runner.finalChatCompletion()).choices[0];
    assert.deepEqual(
      message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
      [
        ["weather", { city: "text" }],
        ["clock", { city: "text" }],
      ],
    );
  },

  async case_tools_run() {
    const runner = client.chat.completions.runTools({
      model: "echo",
      messages: [{ role: "user", content: "use weather" }],
      tools: [
        {
          type: "function",
          function: {
            ...tool("weather").function,
            parse: JSON.parse,
            function: ({ city }) => `warm in ${city}`,
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), "The tool said: warm in text");
  },

  async case_structured() {
    const format = { type: "json_schema", json_schema: { name: "person", strict: true, schema } };
    const answer = await client.chat.completions.parse({
      model: "echo",
      messages: [{ role: "user", content: "who?" }],
      response_format: format,
    });
    assert.deepEqual(JSON.parse(answer.choices[0].message.content), { name: "text", age: 1 });
  },

  async case_embeddings() {
    const model = "text-embedding-3-small";
    const packed = await client.embeddings.create({ model, input: ["a", "b"] });
    const plain = await client.embeddings.create({ model, input: "b", encoding_format: "float" });
    assert.deepEqual(packed.data[1].embedding, plain.data[0].embedding);
    assert.equal(packed.data[1].embedding.length, 8);
  },

  async case_models() {
    const listed = [];
    for await (const model of client.models.list()) listed.push(model.id);
    for (const name of ["org/name", "org/name:tag", "a model", "ft:gpt:x::id"]) {
      assert.ok(listed.includes(name), name);
      assert.equal((await client.models.retrieve(name)).id, name);
    }
  },

  async case_errors() {
    const classes = {
      "at-400": OpenAI.BadRequestError,
      "at-404": OpenAI.NotFoundError,
      "at-422": OpenAI.UnprocessableEntityError,
      "at-429": OpenAI.RateLimitError,
      "at-503": OpenAI.InternalServerError,
      "far/auto": OpenAI.PermissionDeniedError,
      "unheard-of": OpenAI.NotFoundError,
    };
    for (const [model, kind] of Object.entries(classes)) {
      const content = `[[fault:${model.slice(3)}]]`;
      const asked = model.startsWith("at-") ? ask(content, { model }) : ask("x", { model });
      const error = await asked.then(
        () => assert.fail(model),
        (failure) => failure,
      );
      assert.ok(error instanceof kind, `${model}: ${error}`);
      assert.ok(error.code && error.type && error.requestID, model);
    }
    const stranger = new Client({ baseURL: process.env.BASE_URL, apiKey: "sk-wrong" });
    await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  },

  async case_a_stream_that_breaks() {
    for (const fault of ["error=4", "reset=4", "error-choices=4"]) {
      const finishes = [];
      const reading = (async () => {
        const stream = await ask(`[[fault:${fault}]] one two three`, { stream: true });
        for await (const chunk of stream) finishes.push(chunk.choices[0].finish_reason);
      })();
      await assert.rejects(reading, OpenAI.APIError, fault);
      assert.ok(finishes.length > 0 && finishes.every((reason) => reason === null), fault);
    }
  },

  async case_a_stream_that_is_left() {
    const before = (await upstream()).departures.length;
    const stream = await ask("[[fault:hang=3]] one two", { stream: true });
    for await (const _ of stream) break;
    await upstream(`departures=${before + 1}`);
  },

  async case_silence_is_bridged() {
    const stream = await ask("[[fault:pause=0.6]][[say:one]]", { stream: true });
    assert.equal(await joined(stream, (delta) => delta.content), "one");
  },
};

const told = {};
for (const [name, run] of Object.entries(cases)) {
  told[name] = await run().then(
    () => null,
    (error) => error.stack ?? String(error),
  );
}
process.stdout.write(JSON.stringify(told));
