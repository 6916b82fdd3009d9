package anabranch;

import java.io.IOException;
import java.nio.ByteBuffer;

/** The frames of a range that was sent before it was asked for, and where one reader of them is. */
final class SentFrames extends Frames {
    private final byte[] letters;
    private final byte[][] bodies;
    private int next = 0;

    SentFrames(byte[] letters, byte[][] bodies) {
        this.letters = letters;
        this.bodies = bodies;
    }

    byte next() {
        return next < letters.length ? letters[next++] : END;
    }

    int bodyLength() {
        return bodies[next - 1].length;
    }

    ByteBuffer body() {
        return ByteBuffer.wrap(bodies[next - 1]);
    }

    void body(ByteBuffer into) {
        into.put(bodies[next - 1]);
    }

    IOException unexpected() {
        return new JournalException("The node sent a frame '" + (char) letters[next - 1] + "' of " + bodyLength()
                + " bytes with a range, which does not belong there.");
    }

    void giveBack() {
        // it is no connection
    }

    void close() {
        // it is no connection
    }
}
