package anabranch;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;

/** The Arrow memory of all readers in this process. It is not Spark's own, so that what is lost would be ours. */
final class Memory {
    static final BufferAllocator ROOT = new RootAllocator(Long.MAX_VALUE);

    private Memory() {
    }
}
