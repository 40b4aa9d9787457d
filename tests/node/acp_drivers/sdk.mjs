// A driver of npm `@agentclientprotocol/sdk` with one session; see `../mcp_drivers/lines.mjs`.
//
// `tests/support/tour_clients.py` starts it, with the agent's command, the session's directory and the capabilities.
import * as acp from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { serve, write } from "../mcp_drivers/lines.mjs";

const { command, cwd, capabilities } = JSON.parse(process.argv[2]);
const child = spawn(command, { stdio: ["pipe", "pipe", "inherit"] });
const { agent: methods, client: handled } = acp.methods;

const refuse = () => {
  throw new acp.RequestError(-32002, "not open");
};
const allow = ({ params }) => {
  const { optionId } = params.options.find(({ kind }) => kind === "allow_once");
  return { outcome: { outcome: "selected", optionId } };
};
const connection = acp
  .client({ name: "driver" })
  .onRequest(handled.session.requestPermission, allow)
  .onRequest(handled.fs.readTextFile, refuse)
  .onRequest(handled.fs.writeTextFile, refuse)
  .connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const { agent } = connection;
const result = await agent.request(methods.initialize, {
  protocolVersion: acp.PROTOCOL_VERSION,
  clientCapabilities: capabilities,
});
const session = await agent.buildSession(cwd).start();
const { sessionId } = session;
write({ result });

const client = {
  close: async () => {
    child.stdin.end();
    await connection.closed;
  },
};
await serve(client, {
  prompt: async (_, { text }) => {
    session.prompt(text);
    for (;;) {
      const message = await session.nextUpdate();
      if (message.kind === "stop") return message.response;
      write({ notification: message.update });
    }
  },
  choose: (_, params) => agent.request(methods.session.setConfigOption, { sessionId, ...params }),
  authenticate: (_, params) => agent.request(methods.authenticate, params),
  logout: () => agent.request(methods.logout, {}),
});
