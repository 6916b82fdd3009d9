package anabranch;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A connection to a node: questions out, frames in.
 *
 * <p>A frame is a letter, a length and a body. An answer may end with REFUSED at any frame, with a sentence that says
 * why. The channel does not block: a wait has an end, and a thread that Spark interrupts leaves it at once.
 */
final class Connection extends Frames {
    private static final int HEAD_BYTES = 5;
    private static final int TEXT_BYTES = 1 << 20;
    private static final int FRAME_BYTES = 1 << 28;
    private static final int BUFFER_BYTES = 1 << 20;

    final Host host;
    long idleSince;
    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private byte kind;
    private int length;
    private boolean waiting;

    Connection(Host host) throws IOException {
        this.host = host;
        channel = SocketChannel.open();
        Selector opened = null;
        try {
            opened = Selector.open();
            channel.configureBlocking(false);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, Boolean.TRUE);
            channel.setOption(StandardSocketOptions.SO_RCVBUF, Integer.valueOf(BUFFER_BYTES));
            selector = opened;
            key = channel.register(opened, 0);
            connect();
        } catch (IOException error) {
            channel.close();
            if (opened != null) {
                opened.close();
            }
            throw told(error);
        }
    }

    /** The first question, after a greeting that shows the token. */
    void greet(Question question) throws IOException {
        String hello = Host.JSON.createObjectNode().put("v", 1).put("release", release()).put("token", host.token)
                .toString();
        byte[] body = hello.getBytes(StandardCharsets.UTF_8);
        send(new ByteBuffer[] {head(HELLO, body.length), ByteBuffer.wrap(body)});
        send(question);
        peek();
    }

    /** Asks on an old connection; false if the node closed it meanwhile. */
    boolean answers(Question question) throws IOException {
        try {
            send(question);
            peek();
            return true;
        } catch (ClosedByInterruptException stopped) {
            throw stopped;
        } catch (Refusal refusal) {
            throw refusal;
        } catch (IOException gone) {
            close();
            return false;
        }
    }

    byte next() throws IOException {
        if (!waiting) {
            peek();
        }
        waiting = false;
        return kind;
    }

    int bodyLength() {
        return length;
    }

    ByteBuffer body() throws IOException {
        if (length > TEXT_BYTES) {
            throw unexpected();
        }
        ByteBuffer body = ByteBuffer.allocate(length);
        body(body);
        body.flip();
        return body;
    }

    void body(ByteBuffer into) throws IOException {
        try {
            while (into.hasRemaining()) {
                int count = channel.read(into);
                if (count < 0) {
                    throw unreachable("it closed the connection");
                }
                if (count == 0) {
                    await(SelectionKey.OP_READ);
                }
            }
        } catch (IOException error) {
            throw told(error);
        }
    }

    IOException unexpected() {
        return new JournalException("The node at " + host.address + " answered with a frame '" + (char) kind + "' of "
                + length + " bytes, which was not asked for.");
    }

    /** The connection may be used again. */
    void giveBack() {
        Host.giveBack(this);
    }

    boolean isOld() {
        return System.nanoTime() - idleSince > TimeUnit.MILLISECONDS.toNanos(host.idleMs);
    }

    void close() {
        try {
            selector.close();
            channel.close();
        } catch (IOException error) {
            // it is gone, which is what was wanted
        }
    }

    private static String release() {
        return String.valueOf(Connection.class.getPackage().getImplementationVersion());
    }

    private void connect() throws IOException {
        int colon = host.address.lastIndexOf(':');
        String name = host.address.substring(0, colon);
        if (name.startsWith("[")) {
            name = name.substring(1, name.length() - 1);  // an address of IPv6 is written in brackets
        }
        InetSocketAddress found = new InetSocketAddress(name, Integer.parseInt(host.address.substring(colon + 1)));
        if (found.isUnresolved()) {
            throw new IOException("there is no such host");
        }
        channel.connect(found);
        while (!channel.finishConnect()) {
            await(SelectionKey.OP_CONNECT);
        }
    }

    private static ByteBuffer head(byte letter, int length) {
        ByteBuffer head = ByteBuffer.allocate(HEAD_BYTES).put(letter).putInt(length);
        head.flip();
        return head;
    }

    /** All frames of a question in one go: most are small. */
    private void send(Question question) throws IOException {
        List<ByteBuffer> all = new ArrayList<ByteBuffer>();
        for (int index = 0; index < question.frames(); index++) {
            all.add(head(question.letter(index), question.body(index).length));
            all.add(ByteBuffer.wrap(question.body(index)));
        }
        send((ByteBuffer[]) all.toArray(new ByteBuffer[0]));
    }

    private void send(ByteBuffer[] all) throws IOException {
        int first = 0;
        while (first < all.length) {
            if (!all[first].hasRemaining()) {
                first++;
            } else if (channel.write(all, first, all.length - first) == 0) {
                await(SelectionKey.OP_WRITE);
            }
        }
    }

    /** Reads the head of the next frame, and a refusal whole. */
    private void peek() throws IOException {
        ByteBuffer head = ByteBuffer.allocate(HEAD_BYTES);
        body(head);
        head.flip();
        kind = head.get();
        length = head.getInt();
        waiting = true;
        if (length < 0 || length > FRAME_BYTES) {
            throw unexpected();
        }
        if (kind == REFUSED) {
            String said = StandardCharsets.UTF_8.decode(body()).toString();
            close();
            throw new Refusal(said);
        }
    }

    /** Waits until the channel is ready, but not longer than a node that lives can take. */
    private void await(int readiness) throws IOException {
        key.interestOps(readiness);
        int ready = selector.select(host.waitMs);
        selector.selectedKeys().clear();
        if (Thread.currentThread().isInterrupted()) {
            close();
            throw new ClosedByInterruptException();
        }
        if (ready == 0) {
            throw unreachable("it has said nothing for " + host.waitMs / 1000 + " s");
        }
    }

    /** In our words; but a stop stays what Spark knows it by. */
    private IOException told(IOException error) {
        boolean known = error instanceof JournalException || error instanceof ClosedByInterruptException;
        return known ? error : unreachable(error.getMessage());
    }

    private IOException unreachable(String reason) {
        return new JournalException("No node answers at " + host.address + ": " + reason + ".");
    }
}
