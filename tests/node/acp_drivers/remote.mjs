// Two turns with a remote agent, by the WebSocket or HTTP client of npm `@agentclientprotocol/sdk`.
//
// `tests/e2e/test_remote.py` starts it with an address, a token and the session's directory, and reads its last line.
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const [url, token, cwd] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const stream = url.startsWith("ws")
  ? createWebSocketStream(url, { WebSocket, headers })
  : createHttpStream(url, { headers });
const { agent: methods, client: handled } = acp.methods;
let text = "";
const connection = acp
  .client({ name: "driver" })
  .onNotification(handled.session.update, ({ params }) => {
    const { update } = params;
    if (update.sessionUpdate === "agent_message_chunk") {
      text += update.content.text;
    }
  })
  .connect(stream);
const { agent } = connection;
await agent.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
const { sessionId } = await agent.request(methods.session.new, { cwd, mcpServers: [] });
const stops = [];
for (const source of ["a = 6", "a * 7"]) {
  const prompt = [{ type: "text", text: source }];
  const ended = await agent.request(methods.session.prompt, { sessionId, prompt });
  stops.push(ended.stopReason);
}
const { sessions } = await agent.request(methods.session.list, { cwd });
console.log(JSON.stringify({ stops, text, listed: sessions.some((row) => row.sessionId === sessionId) }));
process.exit(0);
