// A driver of npm `@modelcontextprotocol/client`, in either era; see `lines.mjs`.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { METHODS, introduced, serve, write } from "./lines.mjs";

const { server, era } = JSON.parse(process.argv[2]);
const mode = era === "modern" ? "auto" : "legacy";
const client = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode } });
client.fallbackNotificationHandler = async (notification) => write({ notification });
await client.connect(new StdioClientTransport(server));
introduced(client, client.getNegotiatedProtocolVersion());

const listen = async ({ uri }) => {
  const { honoredFilter } = await client.listen({ resourceSubscriptions: [uri], resourcesListChanged: true });
  return honoredFilter;
};
const subscribe = ({ uri }) => client.subscribeResource({ uri });
await serve(client, { ...METHODS, subscribe: (_, params) => (era === "modern" ? listen : subscribe)(params) });
