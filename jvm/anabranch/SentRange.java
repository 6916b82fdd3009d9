package anabranch;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/** The frames of a small range, which came with the answer that told of it. Goes to the executors with the range. */
final class SentRange implements Serializable {
    private final byte[] letters;
    private final byte[][] bodies;

    private SentRange(byte[] letters, byte[][] bodies) {
        this.letters = letters;
        this.bodies = bodies;
    }

    /** What is left of an answer, up to its end; null if that is nothing. */
    static SentRange from(Connection connection) throws IOException {
        List<byte[]> bodies = new ArrayList<byte[]>();
        StringBuilder letters = new StringBuilder();
        byte letter = connection.next();
        while (letter != Frames.END) {
            if (letter != Frames.SCHEMA && letter != Frames.ROWS && letter != Frames.CONTROL) {
                throw connection.unexpected();
            }
            letters.append((char) letter);
            bodies.add(connection.body().array());
            letter = connection.next();
        }
        connection.body();
        if (bodies.isEmpty()) {
            return null;
        }
        byte[] all = new byte[letters.length()];
        for (int index = 0; index < all.length; index++) {
            all[index] = (byte) letters.charAt(index);
        }
        return new SentRange(all, (byte[][]) bodies.toArray(new byte[0][]));
    }

    /** To read it, from its beginning. */
    Frames frames() {
        return new SentFrames(letters, bodies);
    }
}
