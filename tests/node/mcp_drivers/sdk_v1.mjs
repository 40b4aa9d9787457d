// A driver of npm `@modelcontextprotocol/sdk`, which speaks the versions up to 2025-11-25; see `lines.mjs`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { METHODS, introduced, serve, write } from "./lines.mjs";

const { server } = JSON.parse(process.argv[2]);
const client = new Client({ name: "driver", version: "1" });
client.fallbackNotificationHandler = async (notification) => write({ notification });
const transport = new StdioClientTransport(server);
let version;
transport.setProtocolVersion = (agreed) => (version = agreed);
await client.connect(transport);
introduced(client, version);
await serve(client, { ...METHODS, subscribe: (_, { uri }) => client.subscribeResource({ uri }) });
