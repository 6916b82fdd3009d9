package anabranch;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Frames that a node has sent: on a connection, one after the other, or with an earlier answer. */
abstract class Frames {
    static final byte HELLO = 'H';
    static final byte QUESTION = 'Q';
    static final byte NUMBERS = 'N';
    static final byte SCHEMA = 'S';
    static final byte ROWS = 'R';
    static final byte CONTROL = 'C';
    static final byte END = 'E';
    static final byte WAIT = 'W';
    static final byte REFUSED = 'X';

    /** The letter of the next frame. */
    abstract byte next() throws IOException;

    abstract int bodyLength();

    /** The body of a small frame. */
    abstract ByteBuffer body() throws IOException;

    /** The body of a frame, into a buffer of its length. */
    abstract void body(ByteBuffer into) throws IOException;

    abstract IOException unexpected();

    /** The answer was read to its end. */
    abstract void giveBack();

    abstract void close();
}
