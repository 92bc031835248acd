from wire import Wire

wire = Wire()
for message in wire.messages():
    wire.reply(message, {"type": "echo_ok", "echo": message["body"]["echo"]})
