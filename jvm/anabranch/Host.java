package anabranch;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Where the journals are: the address of a node, and the token that this start of it gave to Spark.
 *
 * <p>A connection that is not used waits for the next who asks. The node may have closed it meanwhile, so a question
 * that got no answer at all on an old connection is asked again on a new one. That is safe: a question for rows changes
 * nothing, and the node knows a batch that comes again.
 */
final class Host implements Serializable {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final ArrayDeque<Connection> IDLE = new ArrayDeque<Connection>();

    final String address;
    final String token;
    final long waitMs;
    final long idleMs;

    Host(CaseInsensitiveStringMap options) {
        address = options.get("address");
        token = options.get("token");
        waitMs = options.getLong("wait_ms", 0);
        idleMs = options.getLong("idle_ms", 0);
    }

    static ObjectNode message(String question, String stream) {
        return JSON.createObjectNode().put("v", 1).put("ask", question).put("stream", stream);
    }

    /** A question whose answer is the ranges of a batch, perhaps with the rows of a small one. */
    News news(String question, boolean withRows) throws IOException {
        Connection connection = ask(question);
        boolean whole = false;
        try {
            if (connection.next() != Frames.NUMBERS) {
                throw connection.unexpected();
            }
            ByteBuffer body = connection.body();
            long[] cuts = new long[body.remaining() / 8];
            if (cuts.length == 0) {
                throw connection.unexpected();
            }
            for (int index = 0; index < cuts.length; index++) {
                cuts[index] = body.getLong();
            }
            News news = new News(cuts, withRows ? SentRange.from(connection) : null);
            whole = true;
            return news;
        } finally {
            if (whole) {
                connection.giveBack();
            } else {
                connection.close();
            }
        }
    }

    /** Hands over a batch, and returns when the node has logged it. */
    void hand(String question, byte[] schema, WriterCommitMessage[] parts) throws IOException {
        Connection connection = ask(new Question(question, schema, parts));
        boolean whole = false;
        try {
            byte answer = connection.next();
            while (answer == Connection.WAIT) {
                connection.body();
                answer = connection.next();
            }
            if (answer != Connection.END) {
                throw connection.unexpected();
            }
            connection.body();
            whole = true;
        } finally {
            if (whole) {
                connection.giveBack();
            } else {
                connection.close();
            }
        }
    }

    Connection ask(String question) throws IOException {
        return ask(new Question(question));
    }

    /** A connection on which this was asked, and on which an answer has begun. */
    private Connection ask(Question question) throws IOException {
        Connection old = takeIdle();
        if (old != null && old.answers(question)) {
            return old;
        }
        Connection fresh = new Connection(this);
        try {
            fresh.greet(question);
            return fresh;
        } catch (IOException error) {
            fresh.close();
            throw error;
        }
    }

    static void giveBack(Connection connection) {
        List<Connection> over = new ArrayList<Connection>();
        synchronized (IDLE) {
            connection.idleSince = System.nanoTime();
            IDLE.addFirst(connection);
            while (((Connection) IDLE.peekLast()).isOld()) {
                over.add(IDLE.pollLast());
            }
        }
        for (int index = 0; index < over.size(); index++) {
            ((Connection) over.get(index)).close();
        }
    }

    private Connection takeIdle() {
        synchronized (IDLE) {
            for (Iterator<Connection> each = IDLE.iterator(); each.hasNext();) {
                Connection connection = (Connection) each.next();
                if (connection.host.address.equals(address) && connection.host.token.equals(token)) {
                    each.remove();
                    return connection;
                }
            }
        }
        return null;
    }
}
