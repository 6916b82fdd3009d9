package anabranch;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What is asked of a node, as frames: a line of JSON, and with a batch for its log also the rows of that batch. */
final class Question {
    private static final byte[] NOTHING = new byte[0];

    private final List<Byte> letters = new ArrayList<Byte>();
    private final List<byte[]> bodies = new ArrayList<byte[]>();

    Question(String text) {
        add(Connection.QUESTION, text.getBytes(StandardCharsets.UTF_8));
    }

    Question(String text, byte[] schema, WriterCommitMessage[] parts) {
        this(text);
        add(Connection.SCHEMA, schema);
        for (int part = 0; part < parts.length; part++) {
            byte[][] messages = ((LogPart) parts[part]).messages;
            for (int index = 0; index < messages.length; index++) {
                add(Connection.ROWS, messages[index]);
            }
        }
        add(Connection.END, NOTHING);
    }

    int frames() {
        return letters.size();
    }

    byte letter(int index) {
        return ((Byte) letters.get(index)).byteValue();
    }

    byte[] body(int index) {
        return (byte[]) bodies.get(index);
    }

    private void add(byte letter, byte[] body) {
        letters.add(Byte.valueOf(letter));
        bodies.add(body);
    }
}
