import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/** A map that is filled again and again, threads with arrays, and a child. Prints a line for each. */
public class Everything {
    public static void main(String[] arguments) throws Exception {
        Map<Integer, String> map = new HashMap<>();
        for (int round = 0; round < 5; round++) {
            for (int number = 0; number < 200_000; number++) {
                map.put(number, "value " + number + " of round " + round);
            }
        }
        long sum = 0;
        for (String value : map.values()) {
            sum += value.hashCode();
        }
        System.out.println(sum);
        Thread[] threads = new Thread[4];
        long[] sums = new long[threads.length];
        for (int at = 0; at < threads.length; at++) {
            int own = at;
            threads[at] = new Thread(() -> sums[own] = filled(own));
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(Arrays.toString(sums));
        Process child = new ProcessBuilder("sh", "-c", "echo child").start();
        String said = new String(child.getInputStream().readAllBytes()).trim();
        System.out.println(said + " " + child.waitFor());
    }

    private static long filled(int seed) {
        byte[][] arrays = new byte[200][];
        for (int at = 0; at < arrays.length; at++) {
            arrays[at] = new byte[50_000];
            Arrays.fill(arrays[at], (byte) (at + seed));
        }
        long sum = 0;
        for (byte[] array : arrays) {
            sum += array[99];
        }
        return sum;
    }
}
