// What both drivers of the TypeScript SDK share: requests come as lines of JSON, and answers and notifications go back so.
//
// `tests/support/mcp_drivers.py` starts a driver with the server's command as its argument and says what the lines are.
import { createInterface } from "node:readline";

/** The calls that both SDKs have under the same names, by the method of the protocol. */
export const METHODS = {
  ping: (client) => client.ping(),
  "tools/list": (client) => client.listTools(),
  "tools/call": (client, params) => client.callTool(params),
  "resources/list": (client) => client.listResources(),
  "resources/templates/list": (client) => client.listResourceTemplates(),
  "resources/read": (client, params) => client.readResource(params),
  "prompts/list": (client) => client.listPrompts(),
  "prompts/get": (client, params) => client.getPrompt(params),
  "completion/complete": (client, params) => client.complete(params),
};

export function write(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

/** What the server said of itself. */
export function introduced(client, protocolVersion) {
  write({
    result: {
      protocolVersion,
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    },
  });
}

/** Makes each request of standard input, in order, until it ends. */
export async function serve(client, methods) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, params } = JSON.parse(line);
    try {
      write({ result: await methods[method](client, params) });
    } catch (error) {
      write({ error: { code: error.code, message: error.message } });
    }
  }
  await client.close();
}
